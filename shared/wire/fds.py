"""What one process holds open: its sockets, pipes, files and the file systems they lie on."""

import re
from typing import Literal

from pydantic import Field

from shared.value import Value

# ray::RewardModel.score, and not ray::DashboardAgent, ray::IDLE
_ACTOR = re.compile(r"ray::\w+\.\w+")


class Holder(Value):
    """A process that holds what another waits for."""

    pid: int
    name: str = ""
    command: str = Field(
        default="", description="Its command line, secrets redacted; of processes of the rank's own user alone."
    )

    @property
    def is_actor(self) -> bool:
        """Is it an actor of Ray's that runs a method?"""
        return _ACTOR.match(self.name) is not None


EndKind = Literal["socket", "clients", "pipe", "fifo", "terminal", "child", "semaphore"]
"""What a process waits at: a connection, new ones or datagrams of anybody, a pipe, a FIFO by its path, whoever types,
the end of a child, or what it shares with other processes by multiprocessing.
"""


class OtherEnd(Value):
    """What the main thread of a process waits for beyond its own memory, and who owes it."""

    kind: EndKind
    fd: int | None = None
    name: str = Field(default="", description="The other end's address, or the path; secrets redacted.")
    local: str = Field(default="", description="Of a socket its own address; of a semaphore which it is.")
    state: str = Field(default="", description="Of a socket, as in `Socket`.")
    unread_bytes: int = Field(
        default=0,
        description="Received at the other end, on this machine, and not read there; of `clients`, their number.",
    )
    unsent_bytes: int = Field(default=0, description="Written here, and not yet acknowledged by the other side.")
    quiet_seconds: float | None = Field(
        default=None, description="Of a TCP connection, since when nothing was sent in it either way; None: not known."
    )
    own: bool = Field(default=False, description="Does the process hold the other end, too?")
    holders: tuple[Holder, ...] = Field(
        default=(), description="Other processes on this machine that hold it; of `child` the one awaited, () for any."
    )


class Socket(Value):
    """One socket of a process. Addresses as `host:port`; state in the kernel's words (ESTABLISHED, SYN_SENT …)."""

    fd: int
    kind: str
    local: str = ""
    remote: str = ""
    state: str = ""
    to_store: bool = Field(default=False, description="Is its remote end MASTER_ADDR:MASTER_PORT?")
    unsent_bytes: int = Field(default=0, description="Written, but not yet acknowledged by the other side.")
    unread_bytes: int = Field(
        default=0, description="Received, but not yet read; for a listening socket, the connections that wait."
    )
    sent_bytes: int | None = Field(default=None, description="Since it was connected; None: not known. TCP only.")
    received_bytes: int | None = Field(default=None, description="As `sent_bytes`.")
    retransmits: int = Field(
        default=0, description="How often the oldest unacknowledged data, or a SYN, was retransmitted."
    )
    other_end: tuple[Holder, ...] = Field(default=(), description="Processes on this machine that hold the other end.")


class Pipe(Value):
    """One end of a pipe or FIFO, and the processes that hold the other."""

    fd: int
    direction: Literal["read", "write", "both"]
    path: str | None = Field(default=None, description="The FIFO's path, None for an anonymous pipe.")
    other_end: tuple[int, ...] = Field(default=(), description="Pids that hold the other end.")
    other_names: tuple[str, ...] = Field(default=(), description="Their names, in the same order.")


class MountUse(Value):
    """A file system that a process has files or its working directory on."""

    point: str
    file_system: str
    source: str = Field(default="", description="What is mounted, e.g. `nas1:/export`, secrets redacted.")
    remote: bool = Field(default=False, description="May access to it block on another machine?")
    files: int = 0
    working_directory: bool = False


class NotableFile(Value):
    """An open file that may matter: locked by the process, or deleted."""

    fd: int
    path: str
    locked: bool = False
    deleted: bool = False


class Fds(Value):
    """Open file descriptors of one process, summarised; `full` lists them on request."""

    total: int
    limit: int | None = None
    by_kind: dict[str, int] = Field(default_factory=dict)
    sockets: tuple[Socket, ...] = ()
    pipes: tuple[Pipe, ...] = ()
    devices: tuple[str, ...] = ()
    files_by_file_system: dict[str, int] = Field(default_factory=dict)
    files: dict[int, str] = Field(
        default_factory=dict, description="fd to path of its plain files, at most the first 64; secrets redacted."
    )
    positions: dict[int, int] = Field(
        default_factory=dict, description="Of these `files`, how many bytes into each the next read or write is, by fd."
    )
    writable: frozenset[int] = Field(default=frozenset(), description="The fds of those `files` that may be written.")
    mounts: tuple[MountUse, ...] = ()
    notable_files: tuple[NotableFile, ...] = ()
    full: dict[int, str] | None = Field(default=None, description="fd to target, only with `?full=1`.")
