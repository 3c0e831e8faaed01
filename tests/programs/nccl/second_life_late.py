"""A job aborts its groups and makes them again in the same processes, to which one rank does not come."""

import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined", "startup_incomplete"], "causes": ["user_code"], "where": "reload"}


def reload() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(rig.NEVER)


def main() -> None:
    """Train a little, and restart in process."""
    place = rig.live_once()
    rig.say_ready(f"rank {place.rank}")
    if place.is_faulty:
        reload()
    rig.restart()
    dist.all_reduce(torch.ones(16))
    rig.end_step()


if __name__ == "__main__":
    main()
