"""What was read of each file, and what of it counted: said where files leave a verdict open.

A file that looks full of evidence and changed nothing is the worst answer of all: so its telling lines are shown, with
why lines of their kind do not suffice by themselves.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from collector.files.other_tools import OtherTool, tool_of
from collector.files.sniff import FileKind
from collector.files.tree.walk import FoundFile
from shared.answer.files_read import FileRead
from shared.isolation import costs_itself
from shared.wire.log_events import EventKind, LogEvent, Logs
from shared.wire.snapshot import NodeSnapshot

_MOST_FILES = 200
_MOST_LINES = 6
_LONGEST = 300

KINDS = {
    FileKind.SNAPSHOT: "snapshot",
    FileKind.MANIFEST: "manifest of a bundle",
    FileKind.RECORDER: "flight record",
    FileKind.PYSPY_JSON: "py-spy stacks",
    FileKind.RAS: "NCCL RAS report",
    FileKind.KERNEL: "kernel log",
    FileKind.LOG: "log",
    FileKind.EMPTY: "empty file",
}
_OF_LINES = frozenset({FileKind.LOG, FileKind.KERNEL})

_WHY = {
    EventKind.WATCHDOG_TIMEOUT: "a watchdog says who waited, not for whom: the other ranks' logs or dumps would tell",
    EventKind.DUMP_SIGNAL: "one rank says that a dump was asked for: the dumps themselves would tell",
    EventKind.TRANSPORT_ERROR: "a connection that broke has two ends, and may have broken after the hang",
    EventKind.EXCEPTION: "an exception alone does not show that others wait for its rank",
    EventKind.OUT_OF_MEMORY: "that memory ran out does not show that others wait for that rank",
    EventKind.DEVICE_ERROR: "a device error is reported where it is noticed, not where it happened",
    EventKind.INTERFACE: "which network NCCL chose is no fault by itself",
    EventKind.VERSION: "a version of NCCL is no fault by itself",
    EventKind.SAYS_WAIT: "that somebody waited long shows neither for whom nor whether in vain",
    EventKind.SAYS_ERROR: "an error of a kind that is not known shows neither who waits nor for whom",
    EventKind.SIGNAL: "that a process was ended does not show why",
    EventKind.RENDEZVOUS: "that ranks were waited for does not show which of them did not come",
}
_NOTHING = "no line of it is known to indicate a hang"
_EMPTY = "nothing was written into it: whoever was to had ended, or had no room"
_OF_A_NODE = "trouble of a node shows neither which job ran there nor who waits for whom"
_OF_A_TOOL = "what another tool shows stands under What is known, and no verdict rests on it"
_NO_TROUBLE = "no line of it is known to show trouble"
_HEAD_BYTES = 16384
_UNREAD = "it is not a kind of file that is read"


class Taken(NamedTuple):
    """What one file was taken for, and how many lines it has."""

    kind: FileKind
    lines: int
    size_bytes: int
    cut: bool = False
    tool: OtherTool | None = None
    """What printed it, where that is no program of the job."""
    stacks: tuple[str, ...] = ()
    """What printed the stacks that it holds, beside which it may be a log."""

    @classmethod
    def of(cls, found: FoundFile, stacks: tuple[str, ...] = ()) -> "Taken":
        """Count the lines, a last one without an end included."""
        tool = tool_of(found.data[:_HEAD_BYTES].decode("utf-8", "replace")) if found.kind in _OF_LINES else None
        if found.shortened is not None:
            return cls(found.kind, found.shortened.lines, found.shortened.size_bytes, found.shortened.cut, tool, stacks)
        lines = found.data.count(b"\n") + (found.data[-1:] not in (b"", b"\n"))
        return cls(found.kind, lines, len(found.data), tool=tool, stacks=stacks)


@costs_itself(lambda taken, snapshots: (), part="what was read of files")
def files_read(
    taken: Mapping[str, Taken], snapshots: Iterable[NodeSnapshot], kernel: Mapping[str, Sequence[str]]
) -> tuple[FileRead, ...]:
    """Return what was read of each file, by name; of many files the first, empty ones last.

    `kernel`: the lines of kernel logs that hold an event.
    """
    telling = _events(snapshots)
    names = sorted(taken, key=lambda name: (taken[name].kind is FileKind.EMPTY, name))[:_MOST_FILES]
    return tuple(_read(name, taken[name], telling.get(name, ()), kernel.get(name, ())) for name in names)


def _read(name: str, taken: Taken, events: Iterable[LogEvent], kernel: Sequence[str]) -> FileRead:
    lines = tuple(dict.fromkeys(text[:_LONGEST] for text in (*(event.text for event in events), *kernel)))
    kinds = dict.fromkeys(event.kind for event in events)
    of_lines = taken.kind in _OF_LINES and (bool(lines) or not taken.stacks)
    shown = any("tool" in event.fields for event in events)
    tool = taken.tool if shown or not (lines or taken.stacks) else None
    kind = ", ".join((*taken.stacks, *([KINDS.get(taken.kind, "unknown")] if of_lines or not taken.stacks else [])))
    why = _EMPTY if taken.kind is FileKind.EMPTY else "; ".join(_WHY[kind] for kind in kinds if kind in _WHY)
    why = _OF_A_TOOL if shown else why or (_OF_A_NODE if kernel else "")
    return FileRead(
        path=name,
        kind=kind if tool is None else f"output of {tool.name}",
        lines=taken.lines if of_lines else None,
        size_bytes=taken.size_bytes,
        cut=taken.cut,
        recognised=len(lines) if of_lines else None,
        telling=lines[-_MOST_LINES:],
        note=why or (_NOTHING if of_lines and tool is None and not lines else "" if tool is None else _of_calm(tool)),
    )


def _of_calm(tool: OtherTool) -> str:
    return _UNREAD if tool.tells is None else _NO_TROUBLE


def _events(snapshots: Iterable[NodeSnapshot]) -> dict[str, list[LogEvent]]:
    found: dict[str, list[LogEvent]] = defaultdict(list)
    for snapshot in snapshots:
        for logs in (snapshot.logs, *(rank.logs for rank in snapshot.ranks)):
            for event in logs.events if isinstance(logs, Logs) else ():
                if event.kind is not EventKind.LAST_LINE or "tool" in event.fields:
                    found[event.path].append(event)
    return {path: sorted(events, key=lambda event: event.number) for path, events in found.items()}
