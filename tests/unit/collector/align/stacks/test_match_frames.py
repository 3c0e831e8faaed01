"""Each row of the tables matches the real frames it was written for, and not its near misses.

Of each row one is in `test_frames_switched_off.py`; in `match_frames.toml` are some in other forms.
"""

import tomllib
from pathlib import Path

import pytest

from collector.align.stacks.tables.kernel_facts import kernel_pattern
from collector.align.stacks.tables.match_frames import frame_pattern, waits_for_work

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
