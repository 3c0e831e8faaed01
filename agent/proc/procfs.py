"""Reads /proc: every file bounded in size, every refusal one of our errors.

A process may end between any two reads, and its owner may be hostile. Formats are those of proc(5).
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from agent.errors import Gone
from shared.errors import NotPermitted, UnhangError, quoted

MOST_BYTES = 1024 * 1024
"""No file of /proc that we read is larger, but for tables of sockets and mappings, which say so."""

_MOST_MAPS_BYTES = 4 * 1024 * 1024
_FIELD = re.compile(r"^([^:\n]+):?(.*)$", re.MULTILINE)

MOST_THREADS = 4096
FEW_THREADS = 512
"""Where something is read of each of them in every look."""
_MOST_FDS = 16_384
"""Descriptors of one process that are looked at: it may have a million."""

_LONGEST_LINE = 64
"""Of processes that started each other."""
_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD in include/linux/sched.h."""


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that we use. Times in seconds; `start_ticks` since boot, in clock ticks."""

    pid: int
    name: str
    state: str
    parent_pid: int
    is_kernel_thread: bool
    cpu_seconds: float
    waited_cpu_seconds: float
    """Of the children that ended and were waited for, and theirs in turn."""
    threads: int
    start_ticks: int
    virtual_bytes: int
    rss_bytes: int
    stack_address: int
    exit_status: int
    environment_bytes: int = 0
    """What its start left of variables; 0 where we may not see."""

    @property
    def key(self) -> tuple[int, int]:
        """Its id and its start: unique on this node."""
        return self.pid, self.start_ticks


class ProcFs:
    """One /proc tree: the machine's own, or a recorded one in tests."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self.root = root

    @property
    def is_real(self) -> bool:
        """Is this the machine's own tree, so that its process ids may be used for more than reading it?"""
        return self.root == Path("/proc")

    def pids(self) -> list[int]:
        """Return the ids of all processes, ascending."""
        return sorted(int(name) for name in os.listdir(self.root) if name.isdigit())

    def tids(self, pid: int, most: int = MOST_THREADS) -> list[int]:
        """Return the ids of threads of a process, ascending: of more than `most`, which a job may have, the first."""
        with reading(pid), os.scandir(self.root / str(pid) / "task") as entries:
            return sorted(int(entry.name) for entry in islice(entries, most))

    def fds(self, pid: int) -> list[int]:
        """Return the numbers of open file descriptors, ascending; of more than 16,384 the first."""
        with reading(pid), os.scandir(self.root / str(pid) / "fd") as entries:
            return sorted(int(entry.name) for entry in islice(entries, _MOST_FDS))

    def fd_count(self, pid: int) -> int:
        """Return how many file descriptors are open."""
        folder = self.root / str(pid) / "fd"
        with reading(pid), os.scandir(folder) as entries:
            count = os.stat(folder).st_size if self.is_real else 0  # since Linux 6.2
            return count or sum(1 for _ in entries)

    def path(self, pid: int, name: str) -> str:
        """Return where the file `name` of a process lies."""
        return f"{self.root}/{pid}/{name}"

    def read(self, pid: int, name: str, *, most: int = MOST_BYTES) -> bytes:
        """Return the first `most` bytes of a file of a process. Raises Gone or NotPermitted."""
        with reading(pid):
            return read_bounded(self.path(pid, name), most)

    @contextmanager
    def opened(self, pid: int, name: str, flags: int = os.O_RDONLY) -> Iterator[int]:
        """Open a file of a process while the block runs. Raises Gone or NotPermitted."""
        with reading(pid):
            file = os.open(self.path(pid, name), flags | os.O_CLOEXEC)
        try:
            yield file
        finally:
            os.close(file)

    def text(self, pid: int, name: str, *, most: int = MOST_BYTES) -> str:
        """Return a file of a process as text, without the final line end."""
        return self.read(pid, name, most=most).decode(errors="replace").rstrip("\n")

    def maps(self, pid: int) -> bytes:
        """Return the list of what a process has mapped, at most 4 MiB of it. Raises Gone or NotPermitted."""
        return self.read(pid, "maps", most=_MOST_MAPS_BYTES)

    def link(self, pid: int, name: str) -> str:
        """Return what a link of a process points to, as the kernel words it."""
        with reading(pid):
            return os.readlink(self.path(pid, name))

    def known_text(self, pid: int, name: str, *, most: int = MOST_BYTES) -> str:
        """Return what `text` does; empty where the process is gone, or that may not be read."""
        with suppress(Gone, NotPermitted):
            return self.text(pid, name, most=most)
        return ""

    def known_link(self, pid: int, name: str) -> str | None:
        """Return what `link` does; None where the process is gone, or that may not be read."""
        with suppress(Gone, NotPermitted):
            return self.link(pid, name)
        return None

    def known_name(self, pid: int) -> str:
        """Return the kernel's short name of a process, empty where it has gone."""
        with suppress(Gone, NotPermitted):
            return self.stat(pid).name
        return ""

    def uids(self, pid: int) -> tuple[int, ...]:
        """Return the user ids of a process: real, effective, saved, of the file system; none where nothing tells."""
        with suppress(ValueError):
            return tuple(map(int, self.known_fields(pid, "status").get("Uid", "").split()))
        return ()

    def inner_pid(self, pid: int, tid: int | None = None) -> int:
        """Return the id that a process in a container, or one of its threads, believes to have. Raises as `fields`."""
        told = self.fields(pid, "status" if tid is None else f"task/{tid}/status").get("NSpid", "").split()
        return int(told[-1]) if told else pid if tid is None else tid

    def is_in_our_namespace(self, pid: int, kind: str) -> bool | None:
        """Is a process in the same namespace as we are? None: nothing tells."""
        with suppress(Gone, NotPermitted, OSError):
            return self.link(pid, f"ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")
        return None

    def stat(self, pid: int, tid: int | None = None) -> Stat:
        """Return the counters of a process, or of one of its threads alone."""
        name = "stat" if tid is None else f"task/{tid}/stat"
        return parse_stat(self.read(pid, name))

    def line(self, pid: int) -> list[int]:
        """Return a process, who started it, who started that, and so on, as far as that may be seen."""
        line = [pid]
        with suppress(Gone, NotPermitted):
            while len(line) < _LONGEST_LINE and (above := self.stat(line[-1]).parent_pid) and above not in line:
                line.append(above)
        return line

    def fields(self, pid: int, name: str) -> dict[str, str]:
        """Return a file of `Name: value` lines, such as `status` and `io`."""
        return _fields(self.text(pid, name))

    def known_fields(self, pid: int, name: str) -> dict[str, str]:
        """Return what `fields` does; none where the process is gone, or that may not be read."""
        return _fields(self.known_text(pid, name))

    @cached_property
    def booted_at(self) -> float:
        """Unix seconds at which the machine booted, read once: the kernel's word for it may drift by a second."""
        for line in read_bounded(f"{self.root}/stat", MOST_BYTES).splitlines():
            if line.startswith(b"btime "):
                return float(line.split()[1])
        raise UnhangError(f"{self.root}/stat does not say when the machine booted")

    def started_at(self, found: Stat) -> float:
        """Return when a process started, in Unix seconds."""
        return self.booted_at + found.start_ticks / TICKS_PER_SECOND


TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


_INITIAL = {"pid": 0xEFFFFFFC, "cgroup": 0xEFFFFFFB}
"""PROC_PID_INIT_INO and PROC_CGROUP_INIT_INO in include/linux/proc_ns.h."""


def is_initial_namespace(kind: Literal["pid", "cgroup"]) -> bool:
    """Is our own namespace of that kind the machine's first one, from which the kernel counts?"""
    with suppress(OSError):
        return os.readlink(f"/proc/self/ns/{kind}") == f"{kind}:[{_INITIAL[kind]}]"
    return False


def parse_stat(data: bytes) -> Stat:
    """Read a line of /proc/PID/stat; the name in it may hold spaces and brackets."""
    head, _, tail = data.rpartition(b")")
    pid, _, name = head.partition(b" (")
    fields = tail.split()
    try:
        return Stat(
            pid=int(pid),
            name=name.decode(errors="replace"),
            state=fields[0].decode(),
            parent_pid=int(fields[1]),
            is_kernel_thread=bool(int(fields[6]) & _KERNEL_THREAD),
            cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND,
            waited_cpu_seconds=(int(fields[13]) + int(fields[14])) / TICKS_PER_SECOND,
            threads=int(fields[17]),
            start_ticks=int(fields[19]),
            virtual_bytes=int(fields[20]),
            rss_bytes=int(fields[21]) * _PAGE_BYTES,
            stack_address=int(fields[25]),
            exit_status=int(fields[49]),
            environment_bytes=int(fields[48]) - int(fields[47]),
        )
    except (ValueError, IndexError) as error:
        raise Gone(f"{quoted(data)} is not a line of /proc/PID/stat") from error


def _fields(text: str) -> dict[str, str]:
    return {key: value.strip() for key, value in _FIELD.findall(text)}


def read_bounded(path: str, most: int) -> bytes:
    """Return the first `most` bytes of a file of the kernel's, which may give them in small pieces."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return b"".join(_pieces(fd, most))
    finally:
        os.close(fd)


def _pieces(fd: int, most: int) -> Iterator[bytes]:
    left = most
    while left > 0 and (piece := os.read(fd, min(left, 65_536))):
        left -= len(piece)
        yield piece


@contextmanager
def reading(pid: int) -> Iterator[None]:
    """Turn the system's refusals while reading about a process into Gone and NotPermitted."""
    try:
        yield
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError) as error:
        raise Gone(f"process {pid} has exited, or has no such file: {error.filename}") from error
    except PermissionError as error:
        raise NotPermitted(
            f"not allowed to read {error.filename or f'about process {pid}'}",
            advice="run the agent as the job's user, as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
        ) from error
    except OSError as error:
        if error.errno in (errno.EIO, errno.EINVAL, errno.ENXIO):
            raise Gone(f"process {pid} no longer has memory or a file there: {error.strerror}") from error
        raise
