"""Four ranks are expected and three are started: all of them wait in the rendezvous."""

import signal

import rig
import torch.distributed as dist

TRUTH = {
    "or_silent": True,
    "launch": "direct",
    "ready": 3,
    "absent": [3],
    "busy": [0, 1, 2],
    "kinds": ["startup_incomplete", "rank_missing"],
    "causes": ["rendezvous", "unknown"],
    "culprits": [3],
}


def main() -> None:
    """Join a world that never fills."""
    signal.alarm(rig.LIFETIME_SECONDS)
    rank, world_size = rig.launched_as()
    rig.say_ready(f"rank {rank}")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


if __name__ == "__main__":
    main()
