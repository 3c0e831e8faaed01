"""Reductions are issued asynchronously, and all wait for their work handles: in C, with no frame of torch in Python.

The faulty rank sleeps before it issues its own; the others look as if they were in user code.
"""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "fetch_batch"}


def main() -> None:
    """Train with two buckets whose reductions overlap; at the faulty step one rank sleeps before them."""
    place = rig.start()
    buckets = [torch.ones(16), torch.ones(32)]
    for at_fault in rig.steps(place):
        if at_fault and place.is_faulty:
            rig.fetch_batch()
        handles = [dist.all_reduce(bucket, async_op=True) for bucket in buckets]
        for handle in handles:
            assert handle is not None
            handle.wait()


if __name__ == "__main__":
    main()
