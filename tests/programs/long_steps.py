"""Nothing is wrong: every rank computes for a minute and more between two reductions, and nobody waits.

Two looks a few seconds apart see the same stacks and the same sequence numbers. That alone is not a hang.
"""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell", "slow"]}


def train_step() -> None:
    """Wait as for a device that has much to do."""
    time.sleep(rig.LIFETIME_SECONDS)


def main() -> None:
    """Train with very large batches."""
    place = rig.start()
    gradients = torch.ones(16)
    for at_fault in rig.steps(place):
        if at_fault:
            train_step()
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
