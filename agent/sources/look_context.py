"""What all ranks of one look share: the process tree, and tables that are read once and only when asked for."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType

from pydantic import BaseModel

from agent.errors import Gone, Unavailable
from agent.proc.mounts import Mounts
from agent.proc.procfs import ProcFs
from agent.proc.sock_diag import unix_peers
from agent.proc.socket_tables import Sockets
from shared.errors import NotPermitted
from shared.missing import Reason
from shared.value import as_json
from shared.wire.snapshot import Identity

_MOST_LINKS = 200_000
_SCAN_SECONDS = 1.0
NOBODY: Mapping[int, Identity] = MappingProxyType({})


class LookContext:
    """The surroundings of a look. Its tables are as old as the look."""

    def __init__(self, procfs: ProcFs, host: str, ranks: Mapping[int, Identity] = NOBODY) -> None:
        """`ranks`: whose the processes are that are ranks, or that ranks have started."""
        self.procfs = procfs
        self.ranks = ranks
        self.host = host
        self.allowance = AnswerLimits()
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

    def processes_named(self, name: str) -> tuple[int, ...]:
        """Return the processes of this name, as the kernel has it: 15 bytes of it."""
        with self._lock:
            return tuple(self._named.get(name, ()))

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

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for pid in self.procfs.pids():
            with suppress(Gone, NotPermitted):
                found.setdefault(self.procfs.text(pid, "comm", most=64).rstrip("\n"), []).append(pid)
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


MOST_BYTES = 32 * 1024 * 1024
"""Of one answer, as JSON. Eight ranks with full records of 2,000 operations need 4 MiB; a collector reads up to 64."""


class AnswerLimits:
    """What may still go into one answer. Safe from many threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._left = most_bytes
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Take in so many bytes more; 0 asks whether there is any room. Raises Unavailable, and takes nothing then."""
        with self._lock:
            if size > self._left or self._left == 0:
                told = f"the answer would be larger than {self._most_bytes} bytes"
                raise Unavailable(Reason.REFUSED, f"{told}; ask about fewer ranks, or not for `full`")
            self._left -= size


def size_of(values: Iterable[object]) -> int:
    """Return how many bytes of JSON these values come to."""
    return sum(_size_of(value) for value in values)


def _size_of(value: object) -> int:
    if isinstance(value, BaseModel):
        return len(as_json(value))
    return size_of(value) if isinstance(value, tuple) else 0
