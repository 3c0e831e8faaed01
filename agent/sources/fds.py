"""The source `fds`: what a rank holds open, read without touching the files themselves."""

import os
import re
import stat
from collections import Counter
from typing import Literal, NamedTuple

from agent.deadline import Deadline
from agent.discover import Rank
from agent.errors import Gone
from agent.mounts import is_remote
from agent.procfs import ProcFs
from agent.scene import Scene
from agent.sources.source import Answer, Question
from shared.errors import NotPermitted
from shared.redaction import redact
from shared.snapshot import Fds, Pipe, Socket

_MOST_FDS = 16_384
_MOST_SHOWN = 256
_MOST_HOLDERS = 16
_INFO = re.compile(r"^(flags|mnt_id):\s*(\d+)$", re.MULTILINE)
_ANONYMOUS = re.compile(r"anon_inode:\[?([\w-]+)\]?")
_INODE = re.compile(r"\w+:\[(\d+)\]")
# Max open files            1048576              1048576              files
_LIMIT = re.compile(r"^Max open files\s+(\d+)", re.MULTILINE)

_DIRECTIONS: dict[int, Literal["read", "write", "both"]] = {0: "read", 1: "write", 2: "both"}


class Descriptor(NamedTuple):
    """One open descriptor."""

    fd: int
    target: str
    kind: str
    flags: int
    file_system: str | None


class FdsSource:
    """Fills `fds`."""

    name = "fds"

    def look(self, rank: Rank, scene: Scene, question: Question, deadline: Deadline) -> Answer:
        pid = rank.stat.pid
        numbers = scene.procfs.fds(pid)
        found = [d for fd in numbers[:_MOST_FDS] if (d := describe(scene, pid, fd)) is not None]
        files = Counter(d.file_system for d in found if d.kind == "file" and d.file_system is not None)
        devices = sorted({d.target for d in found if d.kind == "device"})
        fds = Fds(
            total=len(numbers),
            limit=_limit(scene.procfs, pid),
            by_kind=dict(Counter(d.kind for d in found).most_common()),
            sockets=_sockets(scene, pid, found),
            pipes=_pipes(scene, pid, found),
            devices=tuple(devices[:_MOST_SHOWN]),
            files_by_file_system=dict(files.most_common()),
            full={d.fd: redact(d.target) for d in found} if question.full else None,
        )
        return {"fds": fds}


def describe(scene: Scene, pid: int, fd: int) -> Descriptor | None:
    """Return what a descriptor is; None when it was closed meanwhile."""
    try:
        target = scene.procfs.link(pid, f"fd/{fd}")
        info = dict(_INFO.findall(scene.procfs.text(pid, f"fdinfo/{fd}", most=4096)))
        mounted = scene.mounts(pid).type_of_mount(int(info.get("mnt_id", -1)))
    except (Gone, NotPermitted):
        return None
    kind = _kind(scene.procfs, pid, fd, target, mounted)
    return Descriptor(fd, target, kind, int(info.get("flags", "0"), 8), mounted)


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


def _sockets(scene: Scene, pid: int, found: list[Descriptor]) -> tuple[Socket, ...]:
    wanted = [d for d in found if d.kind == "socket"][:_MOST_SHOWN]
    table = scene.sockets(pid) if wanted else None
    sockets = []
    for descriptor in wanted:
        inode = _INODE.fullmatch(descriptor.target)
        entry = table.get(int(inode[1])) if table is not None and inode is not None else None
        if entry is None:
            sockets.append(Socket(fd=descriptor.fd, kind="other"))
        else:
            sockets.append(Socket(fd=descriptor.fd, **entry._asdict()))
    return tuple(sockets)


def _pipes(scene: Scene, pid: int, found: list[Descriptor]) -> tuple[Pipe, ...]:
    ends = [d for d in found if d.kind in ("pipe", "fifo")][:_MOST_SHOWN]
    return tuple(_pipe(scene, end) for end in ends)


def _pipe(scene: Scene, end: Descriptor) -> Pipe:
    mode = end.flags & os.O_ACCMODE
    others = [pid for pid, fd in scene.holders(end.target) if _is_other_end(scene.procfs, pid, fd, mode)]
    return Pipe(
        fd=end.fd,
        direction=_DIRECTIONS.get(mode, "both"),
        path=end.target if end.kind == "fifo" else None,
        other_end=tuple(dict.fromkeys(others))[:_MOST_HOLDERS],
    )


def _is_other_end(procfs: ProcFs, pid: int, fd: int, mode: int) -> bool:
    try:
        info = dict(_INFO.findall(procfs.text(pid, f"fdinfo/{fd}", most=4096)))
    except (Gone, NotPermitted):
        return False
    other = int(info.get("flags", "0"), 8) & os.O_ACCMODE
    return other != mode or other == os.O_RDWR
