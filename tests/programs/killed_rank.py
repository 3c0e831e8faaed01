"""The faulty rank is killed with SIGKILL, and no launcher is there to end the others."""

import os
import signal

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "launch": "direct",
    "verdict": "hung",
    "kinds": ["rank_exited"],
    "causes": ["signal", "oom", "unknown"],
    "culprits": [2],
    "victims": "0-1,3",
}


def main() -> None:
    """Train; at the faulty step one rank is killed."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for step in range(100):
        dist.all_reduce(activations, group=place.pair)
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
            if place.is_faulty:
                os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
