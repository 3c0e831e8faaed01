"""What all ranks of one look share: the process tree, and tables that are read once and only when asked for."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property

from agent.allowance import Allowance
from agent.errors import Gone
from agent.mounts import Mounts
from agent.procfs import ProcFs
from agent.sources.sockets import Sockets
from agent.unix_peers import unix_peers
from shared.errors import NotPermitted

_MOST_LINKS = 200_000
_SCAN_SECONDS = 1.0


class Scene:
    """The surroundings of a look. Its tables are as old as the look."""

    def __init__(self, procfs: ProcFs, host: str) -> None:
        self.procfs = procfs
        self.host = host
        self.allowance = Allowance()
        self._lock = threading.Lock()
        self._mounts: dict[str, Mounts] = {}
        self._sockets: dict[str, Sockets] = {}

    def mounts(self, pid: int) -> Mounts:
        """Return the mounts that process `pid` sees."""
        namespace = self.procfs.link(pid, "ns/mnt")
        with self._lock:
            if namespace not in self._mounts:
                self._mounts[namespace] = Mounts(self.procfs.text(pid, "mountinfo"))
            return self._mounts[namespace]

    def sockets(self, pid: int) -> Sockets:
        """Return the sockets of the network namespace of process `pid`."""
        namespace = self.procfs.link(pid, "ns/net")
        with self._lock:
            if namespace not in self._sockets:
                self._sockets[namespace] = Sockets(self.procfs, pid)
            return self._sockets[namespace]

    def holders(self, pipe: str) -> tuple[tuple[int, int], ...]:
        """Return who holds a pipe, as (pid, fd), given as the kernel words it: `pipe:[123]` or a FIFO's path.

        The same for a socket, `socket:[123]`.
        """
        with self._lock:
            if pipe.startswith("/"):
                return tuple(holder for target, holder in self._scan() if target == pipe)
            return tuple(self._held.get(pipe, ()))

    @cached_property
    def unix_peers(self) -> dict[int, int]:
        """The other end of each unix socket of our own network namespace, by inode; empty where we may not ask."""
        return unix_peers()

    @cached_property
    def _held(self) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for target, holder in self._scan():
            if target.startswith(("pipe:[", "socket:[")):
                found.setdefault(target, []).append(holder)
        return found

    def _scan(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Iterate over what all processes hold open, as far as one second and the limit reach."""
        until, links = time.monotonic() + _SCAN_SECONDS, 0
        for pid in self.procfs.pids():
            for fd, target in self._links(pid):
                links += 1
                yield target, (pid, fd)
            if links > _MOST_LINKS or time.monotonic() > until:
                return

    def _links(self, pid: int) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        with suppress(Gone, NotPermitted):
            for fd in self.procfs.fds(pid):
                with suppress(Gone):
                    found.append((fd, self.procfs.link(pid, f"fd/{fd}")))
        return found
