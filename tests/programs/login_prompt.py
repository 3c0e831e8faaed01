"""A reporting library on rank 0 asks on the terminal who is logging in, and nobody types."""

import os

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "culprits": [0], "where": "log_in"}


def log_in() -> str:
    """Ask, with a terminal as standard input as in an interactive job."""
    controller, terminal = os.openpty()
    os.dup2(terminal, 0)
    answer = input("(1) Create an account\n(2) Use an existing account\nEnter your choice: ")
    os.close(controller)
    return answer


if __name__ == "__main__":
    place = rig.start()
    rig.train(place, log_in, astray=place.rank == 0)
