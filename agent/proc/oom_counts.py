"""How many processes of a cgroup were OOM-killed.

Version 2 counts a kill in the victim's group and in all groups above it, so a parent still shows it when the victim's
group is gone; version 1 counts it only in the victim's group (memcg_memory_event in include/linux/memcontrol.h).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agent.proc.procfs import ProcFs, is_initial_namespace

CGROUPS = Path("/sys/fs/cgroup")
_MOST_BYTES = 4096
_DEEPEST = 32


class OomCount(NamedTuple):
    """What one file counted at one moment."""

    path: Path
    kills: int
    own: bool
    """Is it the group of the process itself, not one above it?"""


def oom_counts(procfs: ProcFs, pid: int, cgroups: Path = CGROUPS) -> tuple[OomCount, ...]:
    """Return what the group of process `pid` and those above it have counted, the nearest first."""
    found: list[OomCount] = []
    for at, path in enumerate(_files(procfs, pid, cgroups)):
        kills = count_at(path)
        if kills is not None:
            found.append(OomCount(path, kills, own=at == 0))
    return tuple(found)


def oom_kills(procfs: ProcFs, pid: int, cgroups: Path = CGROUPS) -> int | None:
    """Return what the nearest group that counts has counted; None where none does."""
    return next((count_.kills for count_ in oom_counts(procfs, pid, cgroups)), None)


def count_at(path: Path) -> int | None:
    """Return the number that a file of counters gives; None where it is gone or has none."""
    try:
        with path.open("rb") as opened:
            lines = opened.read(_MOST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        match line.split():
            case ["oom_kill", kills] if kills.isdecimal():
                return int(kills)
    return None


def memory_cgroup(procfs: ProcFs, pid: int) -> str | None:
    """Return the memory cgroup of a process as the kernel's log names it; None where we see only a part of the tree."""
    if not procfs.is_real or not is_initial_namespace("cgroup"):
        return None
    groups = dict(_groups(procfs, pid))
    return f"/{'/'.join(groups[min(groups)])}" if groups else None


def _files(procfs: ProcFs, pid: int, cgroups: Path) -> list[Path]:
    groups = dict(_groups(procfs, pid))
    if 1 in groups:
        return [cgroups.joinpath("memory", *groups[1], "memory.oom_control")]
    parts = groups.get(2, [])
    return [cgroups.joinpath(*parts[:depth], "memory.events") for depth in range(len(parts), 0, -1)]


def _groups(procfs: ProcFs, pid: int) -> Iterator[tuple[int, list[str]]]:
    """Iterate over the groups that may count its memory: the version of the tree, and the path."""
    for controllers, parts in cgroups_of(procfs, pid):
        if "memory" in controllers:
            yield 1, parts
        elif not controllers:
            yield 2, parts


def cgroups_of(procfs: ProcFs, pid: int) -> Iterator[tuple[list[str], list[str]]]:
    """Iterate over the control groups of a process: the controllers, none in version 2, and the path in that tree."""
    # 0::/system.slice/slurmstepd.scope/job_12/step_0        (version 2; version 1: 9:memory:/slurm/uid_1000/job_12)
    for line in procfs.known_text(pid, "cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        parts = [part for part in path.split("/") if part]
        if ".." not in parts and len(parts) <= _DEEPEST:
            yield [name for name in controllers.split(",") if name], parts
