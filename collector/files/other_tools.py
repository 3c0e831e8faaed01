"""Which other tool printed a text that people keep beside the files of a job, and what trouble it shows.

`other_tools.toml` has a row for each tool. What it shows is told, and no verdict rests on it.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from shared.formats.logs.rows_all import canonical_op
from shared.packs import read_pack
from shared.redaction.redact import redact
from shared.wire.log_events import EventKind, LogEvent

_LOOKED_AT = 8192
_LONGEST = 500
_MOST = 100


class OtherTool(NamedTuple):
    """A tool, how its output begins, and which of its lines tell."""

    name: str
    begins: re.Pattern[str]
    part: re.Pattern[str] | None
    """What the lines below are about: a device, a node, a pod."""
    tells: re.Pattern[str] | None
    """A line of trouble; or, with the number of an operation, of how far a rank is: its last one counts."""


def _tool(row: dict[str, Any]) -> OtherTool:
    part, tells = (re.compile(row[name]) if name in row else None for name in ("part", "tells"))
    return OtherTool(row["name"], re.compile(row["begins"], re.MULTILINE), part, tells)


_TOOLS = tuple(map(_tool, read_pack(__file__, "other_tools.toml")["tools"]))


def tool_of(text: str) -> OtherTool | None:
    """Return which tool printed a text; None where it is of none of these."""
    head = text[:_LOOKED_AT].replace("\r\n", "\n")
    return next((tool for tool in _TOOLS if tool.begins.search(head)), None)


def shown_by(tool: OtherTool, lines: Iterable[str], path: str) -> list[LogEvent]:
    """Return the lines of a tool that tell, each with what it is about."""
    part, found = "", dict[object, LogEvent]()
    for number, line in enumerate(lines):
        about = tool.part.search(line) if tool.part is not None else None
        part = part if about is None else about[1]
        match = tool.tells.search(line) if tool.tells is not None else None
        if match is None or len(found) == _MOST:
            continue
        told = match.groupdict()
        kind = EventKind.LAST_LINE if "sequence" in told else EventKind.SAYS_ERROR
        fields = {"tool": tool.name, "part": part} | told | ({"op": canonical_op(told["op"])} if "op" in told else {})
        key = (told["group_id"], told["group_rank"]) if "sequence" in told else number
        found[key] = LogEvent(kind=kind, text=redact(line.strip())[:_LONGEST], fields=fields, path=path, number=number)
    return list(found.values())
