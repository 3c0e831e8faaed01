"""Which log files a rank alone writes, and how large they are: growth is progress of that rank and of no other."""

import os

from agent.errors import Gone
from agent.find.choose_ranks import Rank
from agent.proc.mounts import is_remote
from agent.proc.procfs import ProcFs
from agent.sources.fds import describe
from agent.sources.look_context import LookContext
from shared.errors import NotPermitted

_STREAMS = (1, 2)


def own_log_fds(context: LookContext, rank: Rank) -> tuple[int, ...]:
    """Return which of descriptors 1 and 2 are local files that the rank does not share with its launcher."""
    procfs = context.procfs
    try:
        shared = {procfs.link(rank.stat.parent_pid, f"fd/{fd}") for fd in _STREAMS}
    except (Gone, NotPermitted):
        shared = set()
    found = (describe(context, rank.stat.pid, fd) for fd in _STREAMS)
    return tuple(
        d.fd
        for d in found
        if d is not None and d.kind == "file" and d.target not in shared and not is_remote(d.file_system)
    )


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
