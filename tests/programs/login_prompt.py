"""A reporting library on rank 0 asks on the terminal who is logging in, and nobody types."""

import os

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "culprits": [0], "where": "log_in"}


def log_in() -> str:
    """Ask, with a terminal as standard input as in an interactive job."""
    controller, terminal = os.openpty()
    os.dup2(terminal, 0)
    answer = input("(1) Create an account\n(2) Use an existing account\nEnter your choice: ")
    os.close(controller)
    return answer


def main() -> None:
    """Train; rank 0 alone reports, and logs in late."""
    place = rig.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for step in range(100):
        dist.all_reduce(activations, group=place.pair)
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
            if place.rank == 0:
                log_in()
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
