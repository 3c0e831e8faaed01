"""The file that thaws a frozen process: of the nearest of its cgroups that was itself frozen, not only one above it."""

from pathlib import Path

from agent.proc.oom_counts import CGROUPS, cgroups_of
from agent.proc.procfs import ProcFs

_TRAPS = frozenset({"do_freezer_trap", "get_signal", "__refrigerator", "refrigerator"})
"""Where a thread of a frozen cgroup sleeps: version 2, whose trap newer kernels have inside of `get_signal`, where who
is stopped by a signal is, too; version 1."""
_FROZEN_STATE = "D"
"""From Linux 6.1 on, a sleep that version 1 freezes stays in its own kernel function, and only its state tells."""


def frozen_by(procfs: ProcFs, pid: int, *, state: str, wchan: str | None, cgroups: Path = CGROUPS) -> str | None:
    """Return the path of `cgroup.freeze` (version 2) or `freezer.state` (1) of what froze it; None: nothing did.

    `wchan`: the kernel function that its main thread sleeps in; None where that may not be read.
    """
    trapped = wchan in _TRAPS
    if not trapped and wchan is not None and state != _FROZEN_STATE:
        return None
    for controllers, parts in cgroups_of(procfs, pid):
        if controllers == ["freezer"] and (trapped or state == _FROZEN_STATE):
            found = _nearest(cgroups / "freezer", parts, "freezer.self_freezing")
            if found is not None:
                return str(found / "freezer.state")
        for root in () if controllers else (cgroups, cgroups / "unified"):
            events = b"" if trapped else _read(root.joinpath(*parts, "cgroup.events"))
            found = _nearest(root, parts, "cgroup.freeze") if trapped or b"frozen 1" in events.splitlines() else None
            if found is not None:
                return str(found / "cgroup.freeze")
    return None


def _nearest(root: Path, parts: list[str], asked: str) -> Path | None:
    """Return the lowest of a group and those above it that somebody asked to be frozen."""
    folders = (root.joinpath(*parts[:depth]) for depth in range(len(parts), 0, -1))
    return next((folder for folder in folders if _read(folder / asked) == b"1"), None)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(256).strip()
    except OSError:
        return b""
