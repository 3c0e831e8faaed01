"""Connects to addresses as another process sees them: inside its network namespace, where that is not ours.

A thread that enters a namespace would stay in it, so a child process enters, connects and hands the socket back.
"""

import errno
import os
import socket
import sys
from pathlib import Path

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.run_bounded import run_bounded
from shared.missing import Reason
from shared.server.addresses import Address

_CHILD = Path(__file__).with_name("netns_child.py")
_NO_RIGHT = (
    "the rank is in another network namespace, which only CAP_SYS_ADMIN may enter; give it to the agent "
    "(under systemd also remove RestrictNamespaces=yes from its unit), or run the agent inside the container"
)


def connect(address: Address, procfs: ProcFs, pid: int, deadline: Deadline) -> socket.socket:
    """Connect to a numeric address as process `pid` sees it. Raises Unavailable, Gone or NotPermitted."""
    if procfs.link(pid, "ns/net") == os.readlink("/proc/self/ns/net"):
        return _connect_here(address, deadline)
    with procfs.opened(pid, "ns/net") as namespace:
        return _connect_there(address, namespace, deadline)


def _connect_here(address: Address, deadline: Deadline) -> socket.socket:
    try:
        return socket.create_connection((address.host, address.port), timeout=max(deadline.left(), 0.001))
    except OSError as error:
        raise _refused(address, error) from error


def _connect_there(address: Address, namespace: int, deadline: Deadline) -> socket.socket:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [
            *(sys.executable, "-I", "-S", str(_CHILD)),
            *(str(namespace), str(theirs.fileno()), address.host, str(address.port), f"{deadline.left():.3f}"),
        ]
        output = run_bounded(command, deadline, pass_fds=(namespace, theirs.fileno()))
        if output.status == 0:
            ours.settimeout(max(deadline.left(), 0.001))
            _, found, _, _ = socket.recv_fds(ours, 1, 1)
            if found:
                return socket.socket(fileno=found[0])
    if output.status is None:
        raise Unavailable(Reason.TIMED_OUT, f"{address} in the rank's network namespace was not reached in time")
    said = output.stderr.decode(errors="replace").strip()
    if said == f"enter {errno.EPERM}":
        raise Unavailable(Reason.NOT_PERMITTED, _NO_RIGHT)
    raise Unavailable(Reason.UNREACHABLE, f"{address} in the rank's network namespace: {said[-200:] or 'no socket'}")


def _refused(address: Address, error: OSError) -> Unavailable:
    if isinstance(error, TimeoutError):
        return Unavailable(Reason.TIMED_OUT, f"{address} was not reached in time")
    return Unavailable(Reason.UNREACHABLE, f"{address}: {error.strerror or error}")
