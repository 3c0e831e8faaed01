"""What Gloo counts and does not record: who left out a send that it always made before."""

from array import array

import pytest

from collector.align.groups.lanes import Cutter
from collector.align.groups.table import GroupView
from collector.align.observations import Observations
from collector.align.progress import JobMotion
from collector.align.roster import Roster
from collector.judge.tie_breakers.broken_habit import broken_habit
from shared.wire.trace import COLUMNS, Group, Signature, State, Trace

WORLD = (0, 1, 2, 3)


def trace(*op_ids: int, last: State = State.ISSUED, backend: str = "gloo") -> Trace:
    """All-reduces with these counts, the last one in state `last`."""
    columns = dict.fromkeys(COLUMNS, [0] * len(op_ids))
    states = [*[State.COMPLETED] * (len(op_ids) - 1), last]
    columns |= {"op_id": list(op_ids), "collective_seq": list(range(1, len(op_ids) + 1)), "state": states}
    return Trace(
        groups=(Group(name="0", members="0-3"),),
        signatures=(Signature("all_reduce", backend, ((16,),), ("Float",), ((16,),), ("Float",)),),
        **{name: array("q", values) for name, values in columns.items()},
    )


def broken(traces: dict[int, Trace]) -> int | None:
    lanes = {rank: lane for rank, one in traces.items() if (lane := Cutter(one).lane((0,))) is not None}
    group = GroupView("0", "default_pg", WORLD, WORLD, False, lanes, traces)
    roster = Roster(job=None, world_size=4, ranks={}, conflicts=(), live=True, last_look_ns=None)
    found = broken_habit(Observations(roster, JobMotion({}, 0.0, None, None), (group,), traces, {}))
    return None if found is None else found.rank


STEADY = trace(3, 6, 9, 12)


def test_who_issued_less_than_in_each_step_before_is_found() -> None:
    assert (
        broken({0: trace(2, 4, 6, 8), 1: STEADY, 2: trace(3, 6, 9, 11), 3: trace(2, 4, 6, last=State.COMPLETED)}) == 2
    )


@pytest.mark.parametrize(
    "other",
    [
        STEADY,
        trace(3, 6, 9, 13),
        trace(3, 6, 10, 12),
        trace(3, 6, 8),
        trace(3, 6, 9, 11, last=State.COMPLETED),
        trace(3, 6, 9, 11, backend="nccl"),
    ],
    ids=["keeps it", "does more", "has none", "too short", "is done with it", "records all"],
)
def test_nobody_is_found_without_a_habit_that_was_broken(other: Trace) -> None:
    assert broken({0: STEADY, 1: STEADY, 2: other}) is None


def test_two_who_break_theirs_are_nobody() -> None:
    assert broken({0: trace(3, 6, 9, 11), 1: STEADY, 2: trace(3, 6, 9, 11)}) is None
