"""The file that thaws a frozen process: of the nearest of its cgroups that was itself frozen, not only one above it."""

from pathlib import Path

from agent.errors import Gone
from agent.proc.oom_counts import CGROUPS
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted

_DEEPEST = 32
_FROZEN = b"1"


def frozen_by(procfs: ProcFs, pid: int, cgroups: Path = CGROUPS) -> str | None:
    """Return the path of `cgroup.freeze` (version 2) or `freezer.state` (1) of what froze it; None: not known."""
    # 0::/system.slice/docker-4f1c.scope        (version 2; version 1: 6:freezer:/docker/4f1c)
    try:
        lines = procfs.text(pid, "cgroup").splitlines()
    except (Gone, NotPermitted):
        return None
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        parts = [part for part in path.split("/") if part]
        if ".." in parts or len(parts) > _DEEPEST or controllers not in ("", "freezer"):
            continue
        root, asked, told = (cgroups, "cgroup.freeze", "cgroup.freeze")
        if controllers:
            root, asked, told = (cgroups / "freezer", "freezer.self_freezing", "freezer.state")
        for depth in range(len(parts), 0, -1):
            folder = root.joinpath(*parts[:depth])
            if _reads(folder / asked) == _FROZEN:
                return str(folder / told)
    return None


def _reads(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(64).strip()
    except OSError:
        return b""
