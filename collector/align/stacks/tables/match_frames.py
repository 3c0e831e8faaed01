"""Step 8: which row of the tables a frame matches."""

from functools import lru_cache

from collector.align.stacks.tables.frames_communication import COMMUNICATION_FRAMES
from collector.align.stacks.tables.frames_native import NATIVE_FRAMES
from collector.align.stacks.tables.frames_other import OUTSIDE_FRAMES
from collector.align.stacks.tables.row_types import FramePattern

FRAMES: tuple[FramePattern, ...] = (*COMMUNICATION_FRAMES, *OUTSIDE_FRAMES)

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
