"""Parts of a batch share the fate of the entry that ends it, and nothing else does."""

import json
from typing import Any

import pytest

from shared.formats.recorder.dump import parse_dump
from shared.wire.trace import State


def entry(name: str, collective: int, p2p: int, state: str = "scheduled", group: str = "pp") -> dict[str, Any]:
    return {
        "process_group": [group, ""],
        "profiling_name": f"nccl:{name}",
        "collective_seq_id": collective,
        "p2p_seq_id": p2p,
        "op_id": 1,
        "is_p2p": name.startswith(("send", "recv")) or p2p > 0,
        "state": state,
    }


def states(*entries: dict[str, Any]) -> list[State]:
    return [State(state) for state in parse_dump(json.dumps({"entries": entries}).encode()).state]


@pytest.mark.parametrize("end", ["scheduled", "started", "completed"])
def test_the_parts_of_a_batch_are_as_far_as_its_end(end: str) -> None:
    told = states(entry("send 0->1", 0, 1), entry("recv 0<-1", 0, 1), entry("coalesced", 0, 1, end))
    assert told == [{"scheduled": State.ISSUED, "started": State.STARTED, "completed": State.COMPLETED}[end]] * 3


def test_what_stands_before_a_batch_keeps_its_state() -> None:
    before = [entry("send 0->1", 0, 1), entry("all_reduce", 1, 0, group="dp")]
    batch = [entry("send 0->1", 0, 2), entry("coalesced", 0, 2, "completed")]
    assert states(*before, *batch) == [State.ISSUED, State.ISSUED, State.COMPLETED, State.COMPLETED]


def test_a_batch_that_was_never_ended_is_in_flight() -> None:
    assert states(entry("send 0->1", 0, 1), entry("recv 0<-1", 0, 1)) == [State.ISSUED, State.ISSUED]


def test_two_batches_do_not_share() -> None:
    first = [entry("_allgather_base", 1, 0), entry("coalesced", 1, 0, "completed")]
    second = [entry("_allgather_base", 2, 0), entry("coalesced", 2, 0)]
    assert states(*first, *second) == [State.COMPLETED, State.COMPLETED, State.ISSUED, State.ISSUED]


@pytest.mark.parametrize("end", ["ALLGATHER_coalesced", "REDUCE_SCATTER_coalesced", "_ALLGATHER_BASE_coalesced"])
def test_a_batch_may_be_ended_by_the_name_of_its_operation(end: str) -> None:
    parts = [entry("_broadcast_oop", 2, 0), entry("_broadcast_oop", 2, 0)]
    assert states(*parts, entry(end, 2, 0, "completed")) == [State.COMPLETED] * 3


def test_parts_without_an_end_are_done_where_their_group_has_gone_on() -> None:
    """XCCL writes no entry for the end of a batch."""
    parts = [entry("_broadcast_oop", 2, 0), entry("_reduce_oop", 3, 0)]
    assert states(*parts, entry("all_reduce", 4, 0, "completed")) == [State.COMPLETED] * 3
    assert states(*parts, entry("all_reduce", 4, 0, "started"))[:2] == [State.ISSUED] * 2
    assert states(*parts, entry("all_reduce", 4, 0, "completed", group="dp"))[:2] == [State.ISSUED] * 2
    assert states(entry("all_reduce", 2, 0), entry("all_reduce", 3, 0, "completed"))[0] is State.ISSUED
