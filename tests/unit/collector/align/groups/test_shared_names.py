"""Groups and ranks that only some tell: members that are inferred, and two machines or agents of one name."""

import itertools

import pytest

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.groups.process_groups import line_up
from collector.align.roster import Presence
from collector.judge.verdict import diagnose
from shared.wire.snapshot import NodeSnapshot, RankSnapshot
from shared.wire.trace import Trace
from tests.build.jobs.dumps import bare_rank
from tests.build.jobs.records import ISSUED, Row, trace_of
from tests.unit.collector.judge.test_skewed_clocks import BEGAN, rank_on


def seen_at(seconds: float, *ranks: int) -> NodeSnapshot:
    """What one agent on `box` saw at a time."""
    looks: tuple[RankSnapshot, ...] = tuple(
        rank_on("box", rank, started=BEGAN, looked=BEGAN + seconds + 0.1) for rank in ranks
    )
    return NodeSnapshot(host="box", taken_at_ns=int((BEGAN + seconds) * 1e9), ranks=looks)


@pytest.mark.parametrize("looks", [1, 2])
def test_ranks_of_two_agents_of_one_name_have_not_ended(looks: int) -> None:
    """Whoever was asked last sees its own ranks alone."""
    nodes = [seen_at(500 + 3 * look + 0.5 * agent, agent) for look in range(looks) for agent in (0, 1)]
    for order in itertools.permutations(nodes):
        roster = account_for_ranks(order, Expected())
        assert [view.presence for view in roster.ranks.values()] == [Presence.RUNNING, Presence.RUNNING]
    assert diagnose(nodes, Expected()).findings == ()


def test_a_rank_that_its_own_agent_sees_no_more_has_ended() -> None:
    """Its neighbour on the node is still there."""
    roster = account_for_ranks([seen_at(500, 0, 1), seen_at(503, 1)], Expected())
    assert [view.presence for view in roster.ranks.values()] == [Presence.EXITED, Presence.RUNNING]


def test_the_last_ranks_of_a_node_have_ended_where_it_has_none_left() -> None:
    """Whoever looked saw none at all."""
    roster = account_for_ranks([seen_at(500, 0, 1), seen_at(503)], Expected())
    assert {view.presence for view in roster.ranks.values()} == {Presence.EXITED}


RANKS = (0, 1, 2, 3)
ROWS = [Row("3", 1, backend="gloo"), Row("3", 2, ISSUED, backend="gloo")]


def traces(*, told_by: dict[int, list[tuple[int, ...]]]) -> dict[int, Trace]:
    """Four ranks wait in the same operation; those in `told_by` tell who the members are, a group for each answer."""
    found = {rank: trace_of(ROWS, {"3": told_by.get(rank, [()])[0]}) for rank in RANKS}
    for rank, answers in told_by.items():
        more = tuple(found[rank].groups[0].model_copy(update={"members": ",".join(map(str, m))}) for m in answers[1:])
        found[rank] = found[rank].model_copy(update={"groups": found[rank].groups + more})
    return found


def issued(recorded: dict[int, Trace]) -> list[dict[int, int]]:
    """How far each rank has got, by group."""
    nodes = [NodeSnapshot(live=False, ranks=(bare_rank(rank, trace),)) for rank, trace in recorded.items()]
    groups = line_up(account_for_ranks(nodes, Expected()))
    return [{rank: lane.issued for rank, lane in group.lanes.items()} for group in groups]


def test_one_rank_tells_the_members() -> None:
    """The memory of the others was not searched in time: they have not stayed away for that."""
    assert issued(traces(told_by={1: [RANKS]})) == [dict.fromkeys(RANKS, 2)]


def test_it_is_not_clear_which_group_a_rank_means() -> None:
    """How far rank 0 is in either is not known; the others are in one of them alone."""
    narrow, wide = issued(traces(told_by={1: [RANKS, (0, 1)]}))
    assert 0 not in narrow and 0 not in wide
    assert wide == {1: 2, 2: 2, 3: 2}
