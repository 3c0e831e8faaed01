"""Two machines of one name, or two agents on a box: what one does not see has not ended for that."""

import itertools

import pytest

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.roster import Presence
from collector.judge.verdict import diagnose
from shared.wire.snapshot import NodeSnapshot, RankSnapshot
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
