"""All ranks abort their groups after a fault, and one rank's abort does not come back: the others make them again."""

import os

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "kinds": ["rank_not_joined", "startup_incomplete"],
    "causes": ["user_code", "rendezvous", "hardware", "device_sync", "teardown", "unknown"],
    "where": "restart",
}


def recover() -> None:
    """Abort, start again, and meet."""
    rig.restart()
    dist.all_reduce(torch.ones(16))
    rig.end_step()


def main() -> None:
    """Train a little, and restart in process; the stand-in for NCCL (deploy/lab) blocks one rank."""
    place = rig.live_once()
    rig.say_ready(f"rank {place.rank}")
    if place.is_faulty:
        os.environ["LAB_BLOCKS"] = "abort"
    recover()


if __name__ == "__main__":
    main()
