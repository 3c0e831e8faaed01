"""One rank sleeps before the first collective, while NCCL's main thread polls in all others until it comes."""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined", "startup_incomplete"], "causes": ["user_code"], "where": "read_vocabulary"}


def read_vocabulary() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(rig.NEVER)


def main() -> None:
    """Start, and meet for the first time."""
    place = rig.start()
    rig.say_ready(f"rank {place.rank}")
    if place.is_faulty:
        read_vocabulary()
    dist.all_reduce(torch.ones(16))
    rig.end_step()


if __name__ == "__main__":
    main()
