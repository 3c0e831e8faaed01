"""Ports for programs that cannot be handed a socket which listens already."""

import random
import socket
from pathlib import Path

_CHANCE = random.SystemRandom()
"""Hypothesis seeds the common one, and several runs of the tests may share a machine."""


def free_port() -> int:
    """Return a port that nobody has on loopback, from below those that the kernel hands out by itself.

    One of the latter goes to whoever connects or listens next, on the whole machine, before our program has it.
    """
    first_handed_out = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = _CHANCE.randrange(10_000, max(20_000, first_handed_out))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
