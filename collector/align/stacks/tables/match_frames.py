"""Step 8: which row of `frames.toml` a frame matches."""

import re
from functools import lru_cache

from collector.align.stacks.tables.row_types import FramePattern, frame_row
from shared.packs import read_pack

IN_DATABASE = "in SQLite"
"""The label of the rows of SQLite's frames."""

_PACK = read_pack(__file__, "frames.toml")
FRAMES: tuple[FramePattern, ...] = tuple(map(frame_row, _PACK["python"]))
NATIVE_FRAMES: tuple[FramePattern, ...] = tuple(map(frame_row, _PACK["native"]))
_IDLE = tuple((re.compile(row["function"]), re.compile(row["file"])) for row in _PACK["idle"])
_OWN_THREAD, _OTHER_PROCESS = (re.compile(_PACK[name][0]["file"]) for name in ("own_thread", "other_process"))

_LONGEST_REMEMBERED = 512
"""Characters of a frame whose row is remembered: a job can write names of any length."""


def frame_pattern(function: str, file: str, *, native: bool) -> FramePattern | None:
    """Return the first row that matches the frame, or None. Python names are matched without their class."""
    short = len(function) + len(file) <= _LONGEST_REMEMBERED
    return (_once_matched if short else _matched)(function, file, native)


def _matched(function: str, file: str, native: bool) -> FramePattern | None:
    name = function if native else function.rpartition(".")[2]
    for row in NATIVE_FRAMES if native else FRAMES:
        if row.function.search(name) and row.file.search(file):
            return row
    return None


_once_matched = lru_cache(maxsize=4096)(_matched)
"""Thousands of ranks stand in a few places, and each look asks again: a hundred patterns are tried once for each."""


def waits_for_work(function: str, file: str) -> bool:
    """Is the frame one in which a loop waits for work that may never come?"""
    name = function.rpartition(".")[2]
    return any(row_function.search(name) and row_file.search(file) for row_function, row_file in _IDLE)


def waits_in(file: str) -> bool:
    """Does an innermost frame of the main thread tell that it waits for another thread of its own process?"""
    return _OWN_THREAD.search(file) is not None


def waits_in_shared(file: str) -> bool:
    """Does an innermost frame tell that it waits for another process, by what both have in their memory?"""
    return _OTHER_PROCESS.search(file) is not None
