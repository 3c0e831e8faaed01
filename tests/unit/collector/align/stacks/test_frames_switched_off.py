"""Every row of the tables of frames is needed: without it, the real frame that stands above it is read otherwise.

The cases are the comments of `frames.toml` itself: `all_reduce (torch/distributed/distributed_c10d.py:3252)`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from collector.align.stacks.tables import match_frames
from collector.align.stacks.tables.row_types import FramePattern

_FRAME = re.compile(r"(?P<function>[\w:.]+) \((?P<file>[^():]+)(?::\d+)?\)")


class Case(NamedTuple):
    """A row, and the frames above it or above the group of rows that it belongs to."""

    row: FramePattern
    native: bool
    frames: tuple[tuple[str, str], ...]


def cases() -> Iterator[Case]:
    """The rows, with the comments above them; a row without has those of the row before it."""
    pack = Path(match_frames.__file__).with_name("frames.toml").read_text()
    tables = {"python": iter(match_frames.FRAMES), "native": iter(match_frames.NATIVE_FRAMES)}
    comment, frames = "", ()
    for line in pack.splitlines():
        comment += line if line.startswith("# ") else ""
        name = line.strip("[]")
        if line.startswith("[[") and name in tables:
            told = tuple((m["function"], m["file"]) for m in _FRAME.finditer(comment))
            frames = told or frames
            yield Case(next(tables[name]), name == "native", frames)
        comment = comment if line.startswith("#") else ""


CASES = list(cases())


def read(case: Case) -> list[FramePattern | None]:
    """Which rows match the frames of a case, as the tables are now."""
    return [match_frames._matched(*frame, case.native) for frame in case.frames]


def test_every_row_has_a_case() -> None:
    rows = {id(row) for row in (*match_frames.FRAMES, *match_frames.NATIVE_FRAMES)}
    assert {id(case.row) for case in CASES} == rows
    assert all(case.frames for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.frames[-1:]))
def test_without_its_row_a_frame_is_not_read_so(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(case)
    assert None not in found
    assert case.row in found
    table = "NATIVE_FRAMES" if case.native else "FRAMES"
    left = tuple(row for row in getattr(match_frames, table) if row is not case.row)
    monkeypatch.setattr(match_frames, table, left)
    assert read(case) != found
