"""Reductions are issued asynchronously, and all wait for their work handles: in C, with no frame of torch in Python.

The faulty rank sleeps before it issues its own; the others look as if they were in user code.
"""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "augment_batch"}


def augment_batch() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(rig.NEVER)


def main() -> None:
    """Train with two buckets whose reductions overlap; at the faulty step one rank sleeps before them."""
    place = rig.start()
    buckets = [torch.ones(16), torch.ones(32)]
    for at_fault in rig.steps(place):
        if at_fault and place.is_faulty:
            augment_batch()
        handles = [dist.all_reduce(bucket, async_op=True) for bucket in buckets]
        for handle in handles:
            assert handle is not None
            handle.wait()


if __name__ == "__main__":
    main()
