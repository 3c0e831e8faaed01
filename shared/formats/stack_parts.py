"""Cuts a text into the stacks that it holds, of whatever tool, and the lines beside them: people paste, quote and mix.

1. A heading that names a rank, with a stack right below it, begins what is of that rank, up to the next one.
2. In between each line goes, by its form, to the tool that prints such lines; a line of a stack that tells nothing by
   its own form belongs to what it stands in. What is left is somebody's own words, or a log.
3. py-spy's lines are cut into processes where it names one, and gdb's where a thread's number comes again.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from shared.errors import UnreadableDump
from shared.formats.gdb_dumps import GDB_BEGINS, GDB_HEAD, GDB_WRAPPED, parse_gdb_processes
from shared.formats.pyspy_processes import PYSPY_HEADS, is_pyspys, parse_pyspy_processes
from shared.formats.stack_dumps import (
    FAULT_THREAD,
    PYSPY_THREAD,
    PYSTACK_THREAD,
    parse_faulthandler,
    parse_pystack_dump,
)
from shared.rank_sets import MOST_RANKS
from shared.wire.stacks import Stacks


class Tool(StrEnum):
    """What prints stacks."""

    PYSPY = "py-spy stacks"
    FAULTHANDLER = "faulthandler stacks"
    PYSTACK = "pystack stacks"
    GDB = "gdb stacks"


class StackPart(NamedTuple):
    """One process."""

    tool: Tool
    stacks: Stacks
    rank: int | None
    """Of the heading above it."""
    sure: bool
    """Is that rank global, and not perhaps one on its node?"""


# === Rank 3: http://node02:60039/handler/dump_traceback? ===        Process 3 timed out with traceback:
_SURE = re.compile(
    r"(?:=== Rank (?P<rank>\d{1,7}): .{0,300} ===|Process (?P<tested>\d{1,7}) timed out with traceback:)\s*"
)
# # rank 3 on node02        [Rank 3]        rank=3 (pid 4242):        ### Rank 0        Rank 0`s backtrace:
_WORDED = re.compile(r"[#=*\-\[( ]{0,12}rank[ _:=#]{0,3}(?P<rank>\d{1,7})\b(?!\]:| worker).{0,300}", re.IGNORECASE)
_BELOW = 3
"""Lines between a heading and its stack, such as the fence of a block of code."""
_MAY_HOLD = (
    (b"Process ", re.compile(rb"Process \d")),
    (b"Python v", re.compile(rb"Python v\d")),
    (b"hread ", re.compile(rb"[Tt]hread (?:0x|\d)")),
    (b"#", re.compile(rb"^#\d", re.MULTILINE)),
)
"""Each with what stands in all that it matches, which is found much faster."""
# > #0  0x00007f31c0d1 in read () from /lib64/libc.so.6
_BEHIND = re.compile(rb"[\s>|]#\d")
#     all_reduce (torch/distributed/distributed_c10d.py:3252), kept without the line of its thread
_PYTHON_FRAME = re.compile(r"[ \t]{2,}[^\s(]{1,500} \([^\s()]{1,1000}\.py:\d{1,9}\)\s*")
_MOST_FRAMES_LOOKED_AT = 100
_INSIDE = {
    Tool.FAULTHANDLER: re.compile(r"  (?:File |<|\.\.\.)"),
    Tool.PYSTACK: re.compile(r"\x1b|    "),
    Tool.GDB: GDB_WRAPPED,
}
"""What else belongs to a tool's stack, where one has begun."""
_HEADS = (
    (Tool.FAULTHANDLER, FAULT_THREAD),
    (Tool.PYSTACK, PYSTACK_THREAD),
    (Tool.PYSPY, PYSPY_THREAD),
    (Tool.PYSPY, PYSPY_HEADS),
    (Tool.GDB, GDB_HEAD),
    (Tool.GDB, GDB_BEGINS),
)
_LONGEST = 4000


def may_hold_stacks(data: bytes, *, headed: bool = False) -> bool:
    """Is it worth the time to cut it, or where something stands before its lines (`headed`) to take that off first?"""
    begun = any(hint in data and pattern.search(data) is not None for hint, pattern in _MAY_HOLD)
    begun = begun or (headed and (b"\x1b" in data or _BEHIND.search(data) is not None))
    return begun or is_of_frames(data[:65_536].decode("utf-8", "replace"))


def is_of_frames(text: str) -> bool:
    """Are most lines Python frames as py-spy prints them?"""
    lines = list(islice((line for line in text.split("\n") if line.strip()), _MOST_FRAMES_LOOKED_AT))
    frames = sum(_PYTHON_FRAME.fullmatch(line[:2000]) is not None for line in lines)
    return frames > 1 and frames > len(lines) / 2


def parts_of(text: str) -> tuple[list[StackPart], list[str]]:
    """Return all processes of a text, in its order, and the lines beside them. Raises UnreadableDump."""
    lines = text.split("\n")
    parts: list[StackPart] = []
    beside: list[str] = []
    for rank, sure, own in _by_rank(lines):
        found, others = _read(own)
        parts += [StackPart(tool, stacks, rank if at == 0 else None, sure) for at, (tool, stacks) in enumerate(found)]
        beside += others
    return parts, beside


def _by_rank(lines: list[str]) -> Iterator[tuple[int | None, bool, list[str]]]:
    """1. Each with its rank, and whether that is surely a global one."""
    rank, sure, own = None, False, list[str]()
    for number, line in enumerate(lines):
        head = _head(line, lines[number + 1 : number + 12]) if "ank" in line[:40] or "timed out with" in line else None
        if head is not None:
            yield rank, sure, own
            (rank, sure), own = head, []
        else:
            own.append(line)
    yield rank, sure, own


def _head(line: str, below: Iterable[str]) -> tuple[int, bool] | None:
    line = line.rstrip("\r")[:_LONGEST]
    match = _SURE.fullmatch(line) or _WORDED.fullmatch(line)
    following = islice((one for one in below if one.strip()), _BELOW)
    if match is None or not any(_begins(one) for one in following):
        return None
    rank = int(match.groupdict().get("rank") or match.groupdict().get("tested") or 0)
    return None if rank >= MOST_RANKS else (rank, match.re is _SURE)


def _begins(line: str) -> Tool | None:
    line = line.rstrip("\r")
    return next((tool for tool, head in _HEADS if head.fullmatch(line)), None) if len(line) < _LONGEST else None


def _read(lines: list[str]) -> tuple[list[tuple[Tool, Stacks]], list[str]]:
    """2, 3."""
    own: dict[Tool, list[str]] = defaultdict(list)
    beside: list[str] = []
    text = "\n".join(lines)
    if is_of_frames(text) and (bare := _parse(Tool.PYSPY, text)):  # somebody's own words above them may tell the pid
        return [(Tool.PYSPY, stacks) for stacks in bare], [line for line in lines if not is_pyspys(line)]
    inside: Tool | None = None
    for line in lines:
        tool = _begins(line) or (inside if inside is not None and _belongs(line, inside) else None)
        inside = tool or (inside if not line.strip() else None)
        (beside if tool is None else own[tool]).append(line)
    found: list[tuple[Tool, Stacks]] = []
    for tool, kept in own.items():
        stacks = _parse(tool, "\n".join(kept)) if _tells(tool, kept) else []
        found += [(tool, one) for one in stacks]
        beside += [] if stacks else kept
    return found, beside


def _tells(tool: Tool, lines: list[str]) -> bool:
    """Is it more than a line of a log that looks so?"""
    if tool is Tool.PYSPY:
        return any(map(PYSPY_THREAD.fullmatch, lines)) or is_of_frames("\n".join(lines))
    return tool is not Tool.GDB or len(lines) > 1


def _belongs(line: str, inside: Tool) -> bool:
    if inside is Tool.PYSPY:
        return is_pyspys(line)
    return _INSIDE[inside].match(line) is not None


def _parse(tool: Tool, text: str) -> list[Stacks]:
    try:
        if tool is Tool.PYSPY:
            return parse_pyspy_processes(text)
        if tool is Tool.GDB:
            return parse_gdb_processes(text)
        return [parse_faulthandler(text) if tool is Tool.FAULTHANDLER else parse_pystack_dump(text)]
    except UnreadableDump:
        return []
