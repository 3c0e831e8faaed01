"""Nothing is wrong: the ranks start one after another, and those who came first wait for the last one."""

import signal
import time

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell", "slow"], "ready": 3}

SLOWEST_SECONDS = 25.0


def download_weights() -> None:
    """Take a while before joining the others."""
    time.sleep(SLOWEST_SECONDS)


def main() -> None:
    """Start, one rank late, and train without end."""
    signal.alarm(rig.LIFETIME_SECONDS)
    rank, world_size = rig.launched_as()
    if rank == rig.FAULTY_RANK:
        download_weights()
    else:
        rig.say_ready(f"rank {rank}")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    gradients = torch.ones(16)
    while True:
        dist.all_reduce(gradients)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
