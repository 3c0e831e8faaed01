"""A trace cut to a window: the last records of each group and lane, and from where on nothing is left out."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from shared.wire.trace import Group, Signature, State, Trace

_CALLS = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([State.COMPLETED] * 4 + [State.ISSUED])))


def trace_of(calls: list[tuple[int, bool, State]]) -> Trace:
    """Calls on three groups; each record's op_id says where it stood."""
    zeros = array("B", bytes(len(calls)))
    return Trace(
        groups=tuple(Group(name=str(i)) for i in range(3)),
        signatures=(Signature("all_reduce", "nccl"),),
        group=array("B", [group for group, _, _ in calls]),
        signature=zeros,
        call_site=zeros,
        collective_seq=zeros,
        p2p_seq=zeros,
        op_id=array("H", range(len(calls))),
        is_p2p=array("B", [p2p for _, p2p, _ in calls]),
        state=array("B", [state for _, _, state in calls]),
        created_ns=zeros,
        started_ns=zeros,
        completed_ns=zeros,
    )


@given(_CALLS, st.integers(1, 4), st.integers(1, 4))
def test_from_there_on_no_record_is_left_out(calls: list[tuple[int, bool, State]], window: int, narrower: int) -> None:
    """Also where a window is cut again, as a survey cuts that of a look; and it begins as early as it may."""
    whole = trace_of(calls)
    for cut in (whole.windowed(window), whole.windowed(window).windowed(min(window, narrower))):
        held = list(cut.op_id)[cut.whole_from :]
        assert held == list(range(len(calls) - len(held), len(calls)))
        before = list(cut.op_id)[: cut.whole_from]
        assert not before or before[-1] != len(calls) - len(held) - 1


def test_a_trace_that_is_not_cut_is_whole() -> None:
    """Nothing is said where nothing was left out."""
    trace = trace_of([(0, False, State.COMPLETED)] * 4)
    assert trace.windowed(4) is trace
    assert trace.whole_from == 0
