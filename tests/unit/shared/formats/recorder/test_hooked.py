"""Dumps of PyTorch's hook, as NCCL's are since 2.15: numbers, starts and statuses mean what they mean elsewhere."""

import json
from typing import Any

from shared.formats.recorder.dump import parse_dump
from shared.wire.trace import State, Trace

_NS = 1_795_888_000_000_000_000


def entry(number: int, collective: int, *, p2p: int = 0, completed: bool = True) -> dict[str, Any]:
    """The hook's: numbers from zero, the end noted as a start, too."""
    return {
        "process_group": ["0", "default_pg"],
        "pg_id": 0,
        "profiling_name": "nccl2:all_reduce",
        "collective_seq_id": collective,
        "p2p_seq_id": p2p,
        "op_id": number,
        "is_p2p": False,
        "state": "completed" if completed else "scheduled",
        "time_created_ns": _NS + number,
        "time_discovered_started_ns": _NS + 9 if completed else 0,
        "time_discovered_completed_ns": _NS + 9 if completed else 0,
    }


def read(*entries: dict[str, Any], issued: int, completed: int) -> Trace:
    status = {"0": {"last_enqueued_collective": issued, "last_started_collective": -1}}
    status["0"]["last_completed_collective"] = completed
    return parse_dump(json.dumps({"entries": entries, "pg_status": status}).encode())


def test_what_is_counted_from_zero() -> None:
    """Two operations, of which the second hangs: nothing tells that the device has begun any."""
    trace = read(entry(0, 1), entry(1, 2, completed=False), issued=1, completed=0)
    assert [record.signature.backend for record in trace.records()] == ["nccl", "nccl"]
    assert (list(trace.op_id), list(trace.started_ns)) == ([1, 2], [0, 0])
    assert list(trace.state) == [State.COMPLETED, State.ISSUED]
    assert [(mark.issued, mark.started, mark.completed) for mark in trace.marks] == [(2, None, 1)]


def test_statuses_that_count_sends_and_receives() -> None:
    """Which collective the sixth operation is they do not tell: four may be sends."""
    trace = read(entry(0, 1), entry(5, 2, p2p=4, completed=False), issued=5, completed=0)
    assert [(mark.issued, mark.completed) for mark in trace.marks] == [(None, None)]
    assert trace.truncated is False


def test_ring_that_has_lost_its_first() -> None:
    """One operation is enough."""
    assert read(entry(1, 2), entry(2, 3), issued=2, completed=2).truncated
