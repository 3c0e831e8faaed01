"""Which log files a rank alone writes, and how large they are: growth is progress of that rank and of no other."""

import os

from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.job_files import open_held, read_tail
from agent.proc.mounts import is_remote
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from agent.sources.fds import describe
from agent.sources.logs.stream_ends import STREAMS
from agent.sources.look_context import LookContext
from shared.errors import NotPermitted

_TAIL_BYTES = 16_384
_TIMEOUTS = (
    # [rank3]:[E1120 10:12:13.1 ProcessGroupNCCL.cpp:685] [Rank 3] Watchdog caught collective operation timeout: Work…
    b"Watchdog caught collective operation timeout",
    # RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 60000ms for recv …
    b"Timed out waiting ",
)


def own_log_fds(context: LookContext, rank: Rank) -> tuple[int, ...]:
    """Return which of descriptors 1 and 2 are local files that the rank does not share with its launcher."""
    shared = outputs_of(context.procfs, rank.stat.parent_pid)
    found = (describe(context, rank.stat.pid, fd) for fd in STREAMS)
    return tuple(
        d.fd
        for d in found
        if d is not None and d.kind == "file" and d.target not in shared and not is_remote(d.file_system)
    )


def outputs_of(procfs: ProcFs, pid: int) -> set[str | None]:
    """Return where a process's output goes: a rank that writes where its launcher does, too, does not write alone."""
    return {procfs.known_link(pid, f"fd/{fd}") for fd in STREAMS}


def total_bytes(procfs: ProcFs, pid: int, fds: tuple[int, ...]) -> int | None:
    """Return the size of the files behind some descriptors, each file once; None where there are none."""
    sizes: dict[tuple[int, int], int] = {}
    for fd in fds:
        try:
            found = os.stat(procfs.path(pid, f"fd/{fd}"))
        except OSError:
            continue
        sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values()) if sizes else None


def tells_timeout(procfs: ProcFs, pid: int, fds: tuple[int, ...]) -> bool:
    """Does the end of one of these files hold a line of a watchdog, or of an operation that timed out?"""
    for fd in fds:
        try:
            with open_held(procfs, pid, fd, readers_of(procfs, pid)) as opened:
                tail = read_tail(opened, _TAIL_BYTES)
        except (Gone, NotPermitted, Unavailable, OSError):
            continue
        if any(line in tail for line in _TIMEOUTS):
            return True
    return False
