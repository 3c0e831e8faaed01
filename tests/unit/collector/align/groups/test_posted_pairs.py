"""A batch's parts are written down as completed when they are issued: one that lacks its other side is not."""

import json
from collections.abc import Sequence

import pytest

from collector.align.groups.posted_pairs import with_unmatched
from shared.formats.recorder.dump import parse_dump
from shared.wire.trace import State, Trace

AT_ONCE, SEEN_LATER = 50_000, 20_000_000
TWICE, ONCE = ("send 0->1", "send 0->1"), ("recv 1<-0",)


def record(operations: Sequence[str], took_ns: int = AT_ONCE, first: int = 0) -> Trace:
    entries = [
        {
            "process_group": ["0", "default_pg"],
            "profiling_name": f"nccl2:{operation}",
            "collective_seq_id": 0,
            "p2p_seq_id": number,
            "op_id": number - 1,
            "is_p2p": True,
            "state": "completed",
            "time_created_ns": 10**18 + number,
            "time_discovered_completed_ns": 10**18 + number + took_ns,
        }
        for number, operation in enumerate(operations, start=1 + first)
    ]
    return parse_dump(json.dumps({"entries": entries}).encode())


def states(traces: dict[int, Trace]) -> dict[int, list[int]]:
    return {rank: list(trace.state) for rank, trace in with_unmatched(traces).items()}


def test_send_that_nobody_has_issued_a_receive_for() -> None:
    found = states({0: record(TWICE), 1: record(ONCE)})
    assert found == {0: [State.COMPLETED, State.ISSUED], 1: [State.COMPLETED]}


@pytest.mark.parametrize(
    "traces",
    [
        {0: record(TWICE), 1: record((*ONCE, *ONCE))},
        {0: record(TWICE, SEEN_LATER), 1: record(ONCE, SEEN_LATER)},
        {0: record(TWICE)},
        {0: record(TWICE), 1: record(ONCE, first=5)},
        {0: record(TWICE, first=5), 1: record(ONCE)},
    ],
    ids=["both sides", "seen to end", "no record of the other", "the other's is cut", "its own is cut"],
)
def test_what_is_left_as_it_was_written(traces: dict[int, Trace]) -> None:
    assert states(traces) == {rank: list(trace.state) for rank, trace in traces.items()}
