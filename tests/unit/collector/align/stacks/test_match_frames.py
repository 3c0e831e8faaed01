"""Each row of the tables of frames matches the real frames it was written for, and is needed; near misses it leaves."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from collector.align.stacks.tables import match_frames
from collector.align.stacks.tables.kernel_facts import kernel_pattern
from collector.align.stacks.tables.match_frames import frame_pattern, waits_for_work
from collector.align.stacks.tables.row_types import FramePattern

_ROWS: dict[str, list[dict[str, str]]] = tomllib.loads(Path(__file__).with_name("match_frames.toml").read_text())


@pytest.mark.parametrize("language", ["python", "native"])
def test_frames(language: str) -> None:
    native = language == "native"
    for row in _ROWS[language]:
        found = frame_pattern(row["function"], row.get("file", "libtorch_cpu.so"), native=native)
        assert found is not None, row
        assert (found.doing, found.cause) == (row["doing"], row.get("cause", found.cause)), row
    for row in _ROWS[f"{language}_misses"]:
        assert frame_pattern(row["function"], row.get("file", "libc.so.6"), native=native) is None, row


def test_kernel_facts() -> None:
    for row in _ROWS["kernel"]:
        found = kernel_pattern(row["syscall"], row["target"], row["wchan"])
        assert found is not None, row
        assert found.cause == row["cause"], row
    for row in _ROWS["kernel_misses"]:
        assert kernel_pattern(row["syscall"], row["target"], row["wchan"]) is None, row


def test_loops_that_wait_for_work() -> None:
    assert [row for row in _ROWS["idle"] if not waits_for_work(row["function"], row["file"])] == []
    assert [row for row in _ROWS["idle_misses"] if waits_for_work(row["function"], row["file"])] == []


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
