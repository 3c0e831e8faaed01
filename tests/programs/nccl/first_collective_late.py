"""One rank sleeps before the first collective, while NCCL's main thread polls in all others until it comes."""

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined", "startup_incomplete"], "causes": ["user_code"], "where": "fetch_batch"}


def main() -> None:
    """Start, and meet for the first time."""
    place = rig.start()
    rig.say_ready(f"rank {place.rank}")
    if place.is_faulty:
        rig.fetch_batch()
    dist.all_reduce(torch.ones(16))
    rig.end_step()


if __name__ == "__main__":
    main()
