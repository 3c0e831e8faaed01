"""The source `fds`: what a rank holds open, read without touching the files themselves."""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.file_locks import FileLock, parse_locks
from agent.proc.mounts import Mount, is_remote
from agent.proc.procfs import ProcFs
from agent.sources.fd_connections import sockets_of
from agent.sources.look_context import LookContext
from agent.sources.source import Answer, LookDepth
from agent.sources.waits.other_ends import other_holders
from shared.errors import NotPermitted
from shared.missing import Reason
from shared.redaction.redact import redact
from shared.wire.snapshot import Fds, MountUse, NotableFile, Pipe

_MOST_NAMES_BYTES = 2 * 1024 * 1024
"""Of what descriptors of one process lead to: a name may have 4096 bytes."""
_MOST_SHOWN = 256
_MOST_HOLDERS = 16
_MOST_FILES = 64
_MOST_NOTABLE = 32
_NAMELESS = ("/dev/shm/", "/dev/zero", "/SYSV", "/tmp/#", "/anon_hugepage")
"""Shared memory and files of O_TMPFILE look deleted from the beginning."""
_INFO = re.compile(r"^(pos|flags|mnt_id):\s*(\d+)$", re.MULTILINE)
_ANONYMOUS = re.compile(r"anon_inode:\[?([\w-]+)\]?")
_LOCK_HELD = re.compile(r"^lock:\s", re.MULTILINE)
_DELETED = " (deleted)"
# Max open files            1048576              1048576              files
_LIMIT = re.compile(r"^Max open files\s+(\d+)", re.MULTILINE)

_DIRECTIONS: dict[int, Literal["read", "write", "both"]] = {0: "read", 1: "write", 2: "both"}


class Descriptor(NamedTuple):
    """One open descriptor."""

    fd: int
    target: str
    kind: str
    flags: int
    mount: Mount | None = None
    locked: bool = False
    locks: tuple[FileLock, ...] = ()
    position: int = 0

    @property
    def file_system(self) -> str | None:
        """The type of the file system that it lies on; None where that is not known."""
        return None if self.mount is None else self.mount.kind


class FdsSource:
    """Fills `fds`."""

    name = "fds"

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        if question.brief:
            raise Unavailable(Reason.NOT_ENABLED, "left out of a survey")
        pid = rank.stat.pid
        numbers = context.procfs.fds(pid)
        found = list(_described(context, pid, numbers))
        plain = [d for d in found if d.kind == "file"][:_MOST_FILES]
        files = Counter(d.file_system for d in found if d.kind == "file" and d.file_system is not None)
        devices = sorted({d.target for d in found if d.kind == "device"})
        fds = Fds(
            total=context.procfs.fd_count(pid),
            limit=_limit(context.procfs, pid),
            by_kind=dict(Counter(d.kind for d in found).most_common()),
            sockets=sockets_of(context, rank, [(d.fd, d.target) for d in found if d.kind == "socket"][:_MOST_SHOWN]),
            pipes=_pipes(context, pid, found),
            devices=tuple(devices[:_MOST_SHOWN]),
            files_by_file_system=dict(files.most_common()),
            files={d.fd: redact(d.target) for d in plain},
            positions={d.fd: d.position for d in plain},
            writable=frozenset(d.fd for d in plain if d.flags & os.O_ACCMODE != os.O_RDONLY),
            mounts=_mounts(context, pid, found),
            notable_files=_notable(found),
            full={d.fd: redact(d.target) for d in found} if question.full else None,
        )
        return {"fds": fds}


def _described(context: LookContext, pid: int, numbers: Iterable[int]) -> Iterator[Descriptor]:
    """Iterate over the descriptors that are open still, as far as their names are not too long together."""
    left = _MOST_NAMES_BYTES
    for fd in numbers:
        found = describe(context, pid, fd)
        if found is not None:
            left -= len(found.target)
            if left < 0:
                return
            yield found


def describe(context: LookContext, pid: int, fd: int) -> Descriptor | None:
    """Return what a descriptor is; None when it was closed meanwhile."""
    try:
        target = context.procfs.link(pid, f"fd/{fd}")
        told = context.procfs.text(pid, f"fdinfo/{fd}", most=4096)
        info = dict(_INFO.findall(told))
        mount = context.mounts(pid).by_id(int(info.get("mnt_id", -1)))
    except (Gone, NotPermitted):
        return None
    kind = _kind(context.procfs, pid, fd, target, None if mount is None else mount.kind)
    locked = _LOCK_HELD.search(told) is not None
    locks = tuple(parse_locks(told)) if locked else ()
    flags, position = int(info.get("flags", "0"), 8), int(info.get("pos", "0"))
    return Descriptor(fd, target, kind, flags, mount, locked, locks, position)


def _kind(procfs: ProcFs, pid: int, fd: int, target: str, mounted: str | None) -> str:
    anonymous = _ANONYMOUS.match(target)
    if anonymous is not None:
        return anonymous[1]
    if not target.startswith("/"):
        return target.partition(":")[0]
    if target.startswith("/memfd:"):
        return "memfd"
    if target.startswith("/dev/") and not target.startswith("/dev/shm/"):
        return "device"
    return "file" if is_remote(mounted) else _kind_of_local(procfs, pid, fd)


def _kind_of_local(procfs: ProcFs, pid: int, fd: int) -> str:
    """Ask the file itself, which is safe where no other machine has to answer."""
    try:
        mode = os.stat(procfs.path(pid, f"fd/{fd}")).st_mode
    except OSError:
        return "file"
    if stat.S_ISFIFO(mode):
        return "fifo"
    if stat.S_ISDIR(mode):
        return "directory"
    return "device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "file"


def _limit(procfs: ProcFs, pid: int) -> int | None:
    match = _LIMIT.search(procfs.text(pid, "limits"))
    return None if match is None else int(match[1])


def _mounts(context: LookContext, pid: int, found: list[Descriptor]) -> tuple[MountUse, ...]:
    """Return the file systems that a process has files or its working directory on; none of them is touched."""
    files = Counter(d.mount for d in found if d.kind in ("file", "directory") and d.mount is not None)
    try:
        home = context.mounts(pid).of_path(context.procfs.link(pid, "cwd").removesuffix(_DELETED))
    except (Gone, NotPermitted):
        home = None
    if home is not None and home not in files:
        files[home] = 0
    return tuple(
        MountUse(
            point=mount.point,
            file_system=mount.kind,
            source=redact(mount.source),
            remote=is_remote(mount.kind),
            files=count,
            working_directory=mount == home,
        )
        for mount, count in files.most_common(_MOST_SHOWN)
    )


def _notable(found: list[Descriptor]) -> tuple[NotableFile, ...]:
    """Return the files that are locked or deleted, but not those that were made to have no name."""
    files = [d for d in found if d.kind == "file" and not d.target.startswith(_NAMELESS)]
    notable = [
        NotableFile(
            fd=d.fd,
            path=redact(d.target.removesuffix(_DELETED)),
            locked=d.locked,
            deleted=d.target.endswith(_DELETED),
        )
        for d in files
        if d.locked or d.target.endswith(_DELETED)
    ]
    return tuple(notable[:_MOST_NOTABLE])


def _pipes(context: LookContext, pid: int, found: list[Descriptor]) -> tuple[Pipe, ...]:
    ends = [d for d in found if d.kind in ("pipe", "fifo")][:_MOST_SHOWN]
    return tuple(_pipe(context, end) for end in ends)


def _pipe(context: LookContext, end: Descriptor) -> Pipe:
    mode = end.flags & os.O_ACCMODE
    pids = tuple(other_holders(context, end.target, mode))[:_MOST_HOLDERS]
    return Pipe(
        fd=end.fd,
        direction=_DIRECTIONS.get(mode, "both"),
        path=end.target if end.kind == "fifo" else None,
        other_end=pids,
        other_names=tuple(map(context.procfs.known_name, pids)),
    )
