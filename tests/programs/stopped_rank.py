"""The faulty rank stops itself with SIGSTOP, as a debugger, a shell's ^Z or a frozen container would."""

import os
import signal

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_stopped"], "causes": ["signal"]}


def main() -> None:
    """Train; at the faulty step one rank is stopped."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for step in range(100):
        dist.all_reduce(activations, group=place.pair)
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
            if place.is_faulty:
                os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
