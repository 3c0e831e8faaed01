"""Two nodes of four ranks are expected, and the second never came: the ranks of the first wait in the rendezvous."""

import signal

import rig
import torch.distributed as dist

TRUTH = {
    "or_silent": True,
    "launch": "first_node",
    "ready": 4,
    "busy": [0, 1, 2, 3],
    "kinds": ["startup_incomplete", "rank_missing"],
    "causes": ["rendezvous", "unknown"],
    "culprits": [],
}


def main() -> None:
    """Join a world of which half is missing."""
    signal.alarm(rig.LIFETIME_SECONDS)
    rank, world_size = rig.launched_as()
    rig.say_ready(f"rank {rank}")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


if __name__ == "__main__":
    main()
