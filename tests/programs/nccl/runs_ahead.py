"""Processors run many steps ahead of their devices, and one rank leaves out a reduction on the way."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch", "order_inversion"], "causes": ["user_code"], "bare": {"or_silent": True}}

AHEAD = 20


def main() -> None:
    """Train with three buckets, and look at the loss only every twenty steps."""
    place = rig.start()
    buckets = [torch.ones(16 * (1 + number)) for number in range(3)]
    for at_fault in rig.steps(place):
        for step in range(AHEAD):
            for number, bucket in enumerate(buckets):
                if at_fault and place.is_faulty and (step, number) == (7, 1):
                    continue
                dist.all_reduce(bucket, async_op=True)


if __name__ == "__main__":
    main()
