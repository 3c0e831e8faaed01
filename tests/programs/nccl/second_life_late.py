"""A job aborts its groups and makes them again in the same processes, to which one rank does not come."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined", "startup_incomplete"], "causes": ["user_code"], "where": "fetch_batch"}


def main() -> None:
    """Train a little, and restart in process."""
    place = rig.live_once()
    rig.say_ready(f"rank {place.rank}")
    if place.is_faulty:
        rig.fetch_batch()
    rig.restart()
    dist.all_reduce(torch.ones(16))
    rig.end_step()


if __name__ == "__main__":
    main()
