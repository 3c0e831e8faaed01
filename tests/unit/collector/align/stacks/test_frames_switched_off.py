"""Every row of the tables of frames is needed: without it, the real frame that stands above it is read otherwise.

The cases are the comments of the tables themselves: `all_reduce (torch/distributed/distributed_c10d.py:3252)`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from collector.align.stacks.tables import frames_communication, frames_native, frames_other, match_frames
from collector.align.stacks.tables.row_types import FramePattern

_FRAME = re.compile(r"(?P<function>[\w:.]+) \((?P<file>[^():]+)(?::\d+)?\)")


class Case(NamedTuple):
    """A row, and the frames above it or above the group of rows that it belongs to."""

    row: FramePattern
    native: bool
    frames: tuple[tuple[str, str], ...]


def cases_of(module: ModuleType, *, native: bool) -> Iterator[Case]:
    """The rows of all tables of a module, with the comments above them."""
    source = Path(module.__file__ or "").read_text()
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.value, ast.Tuple):
            continue
        assert isinstance(node.target, ast.Name)
        rows, frames = getattr(module, node.target.id), ()
        calls = [each for each in node.value.elts if isinstance(each, ast.Call)]
        for row, call in zip(rows, calls, strict=False):
            above = call.lineno - 1
            while lines[above - 1].lstrip().startswith("#"):
                above -= 1
            told = " ".join(lines[above : call.lineno - 1])
            frames = tuple((m["function"], m["file"]) for m in _FRAME.finditer(told)) if told else frames
            yield Case(row, native, frames)


CASES = [
    *cases_of(frames_communication, native=False),
    *cases_of(frames_other, native=False),
    *cases_of(frames_native, native=True),
]


def read(case: Case) -> list[FramePattern | None]:
    """Which rows match the frames of a case, as the tables are now."""
    return [match_frames._matched(*frame, case.native) for frame in case.frames]


def test_every_row_has_a_case() -> None:
    rows = {id(row) for row in (*match_frames.FRAMES, *frames_native.NATIVE_FRAMES)}
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
