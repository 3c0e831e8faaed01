"""Rank 0 retries a service that is not up yet, and sleeps 1, 2, 4, ... 32 s between its tries; the others wait."""

import random
import socket
import time

import ranks

LAUNCHES = ["torchrun"]


def reach_service(deadline: float) -> None:
    """Try again and again until it is up."""
    pause = 1.0
    while ranks.before(deadline):
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=1.0).close()
        except OSError:
            time.sleep(pause * random.uniform(0.9, 1.1))
            pause = min(2 * pause, 32.0)


if __name__ == "__main__":
    ranks.others_wait_while(reach_service)
