"""Nothing is wrong: the job is done, three ranks have left, and rank 0 still uploads the result."""

import sys
import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell", "slow"]}


def upload() -> None:
    """Take a while for the last step."""
    time.sleep(rig.LIFETIME_SECONDS)


def main() -> None:
    """Train to the end."""
    place = rig.start()
    for _ in range(rig.FAULTY_STEP):
        dist.all_reduce(torch.ones(16))
    dist.destroy_process_group()
    rig.say_ready(f"rank {place.rank}")
    if place.rank == 0:
        upload()
    sys.exit(0)


if __name__ == "__main__":
    main()
