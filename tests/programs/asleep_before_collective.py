"""The faulty rank sleeps in user code and never comes to the world's all_reduce, where the others wait for it."""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "wait_for_quota"}

NEVER = 1e9


def wait_for_quota() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(NEVER)


def main() -> None:
    """Train; at the faulty step one rank waits for its quota first."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        dist.all_reduce(activations, group=place.pair)
        if at_fault and place.is_faulty:
            wait_for_quota()
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
