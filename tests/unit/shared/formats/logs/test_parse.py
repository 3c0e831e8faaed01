"""What is found in log lines, and what is not: tables of lines made up in the grammar of the programs."""

import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.formats.logs.parse import find_events
from shared.formats.logs.rows_all import MATCHERS, canonical_op
from shared.wire.log_events import EventKind, LogEvent


def events(text: str, rank: int | None = None) -> tuple[LogEvent, ...]:
    """Find the events of a log."""
    return find_events(text.split("\n"), path="/var/log/train.log", rank=rank)


_PACK = tomllib.loads(Path(__file__).with_name("lines.toml").read_text())
LINES = [(row["line"], EventKind(row["kind"]), row.get("rank"), row["fields"]) for row in _PACK["lines"]]
"""Real lines, at least one for each row of the pack."""


@pytest.mark.parametrize(("line", "kind", "rank", "fields"), LINES, ids=[line[:40] for line, *_ in LINES])
def test_lines(line: str, kind: EventKind, rank: int | None, fields: dict[str, str]) -> None:
    """Each is found once, with the parts that matter."""
    (event,) = events(line)
    assert (event.kind, event.rank) == (kind, rank)
    assert fields.items() <= event.fields.items()
    assert event.path == "/var/log/train.log"


@pytest.mark.parametrize("line", _PACK["near_misses"])
def test_near_misses(line: str) -> None:
    """What only sounds like it."""
    assert events(line) == ()


def test_mismatch_of_debug_detail_tells_both_sides() -> None:
    """Nested brackets, and the short form without a comma."""
    (event,) = events(
        "Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint("
        "SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[21, 2], TensorDtypes=Float, TensorDeviceTypes=TensorOptions("
        "dtype=float (default), device=cpu)), but Rank 0 is running collective: CollectiveFingerPrint("
        "SequenceNumber=4OpType=BARRIER).Collectives differ in the following aspects: Op type: ALLREDUCEvs BARRIER"
    )
    assert event.kind is EventKind.COLLECTIVE_MISMATCH
    assert (event.fields["rank"], event.fields["op"], event.fields["shape"]) == ("1", "all_reduce", "21, 2")
    assert (event.fields["other_rank"], event.fields["other_op"]) == ("0", "barrier")
    assert (event.fields["sequence"], event.fields["other_sequence"]) == ("4", "4")


@pytest.mark.parametrize("hint", sorted({matcher.hint for matcher in MATCHERS}))
def test_no_line_takes_long(hint: str) -> None:
    """Each hint, repeated and followed by what its pattern would like to see."""
    for filler in (" ", "1", ", 1", "a", "(", "[rank1]:", "<" * 3):
        begun = time.thread_time()
        events((hint + filler * 3000) * 3)
        assert time.thread_time() - begun < 0.5


PIECES = st.sampled_from(
    [
        *sorted({matcher.hint for matcher in MATCHERS}),
        *(
            "[rank1]:",
            "[rank2]: ",
            "[PG ID 0 PG GUID 0(default_pg) Rank 1] ",
            "[1,2]<stderr>:",
            "node1:4:5 [0] NCCL WARN ",
        ),
        *(
            "Traceback (most recent call last):",
            "ValueError: x",
            "CollectiveFingerPrint(",
            "Rank 1 is running collective: ",
        ),
        *("[E1121 09:10:11.1 x.cpp:1] ", " ", "1", ", 2", "#9", "(", "<9>", "\x1b[31m", "\u0663", "\u2028"),
    ]
)


@given(st.lists(st.lists(PIECES, max_size=12).map("".join), max_size=12), st.none() | st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_whatever_a_job_writes_is_read_without_complaint(lines: list[str], rank: int | None) -> None:
    """And every event's line is one of them, cut and redacted."""
    for event in find_events(lines, path="x", rank=rank, written_at=1.8e9):
        assert len(event.text) <= 500
        assert all(len(value) <= 300 for value in event.fields.values())


def test_operations_have_the_recorders_names() -> None:
    """c10d's OpType and the flight recorder spell them differently."""
    assert canonical_op("ALLREDUCE") == "all_reduce"
    assert canonical_op("_REDUCE_SCATTER_BASE") == "reduce_scatter_tensor"
    assert canonical_op("SEND") == "send"
