"""Enters a network namespace, connects to one address there, and hands the socket back.

Run on its own by `agent/tools/netns.py`, with the standard library alone:
`python -I -S netns_child.py NAMESPACE_FD CHANNEL_FD HOST PORT SECONDS`. Complaints go to stderr: `enter ERRNO`
where the namespace may not be entered, else a sentence.
"""

import os
import socket
import sys

_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET in linux/sched.h."""


def main(namespace: int, channel: int, host: str, port: int, seconds: float) -> None:
    """Do it. The socket stays in the namespace where it was made."""
    try:
        enter(namespace)
    except OSError as error:
        sys.exit(f"enter {error.errno}")
    try:
        with socket.create_connection((host, port), timeout=seconds) as found, socket.socket(fileno=channel) as back:
            found.settimeout(None)
            socket.send_fds(back, [b"k"], [found.fileno()])
    except OSError as error:
        sys.exit(error.strerror or str(error))


def enter(namespace: int) -> None:
    """Call setns(2), which Python has from 3.12 on."""
    if hasattr(os, "setns"):
        os.setns(namespace, _NEW_NETWORK)
        return
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(namespace, _NEW_NETWORK) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
