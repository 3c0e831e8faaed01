"""Whose calls stray from those of its peers: alone, against peers who agree, and in calls that either could make."""

from collections.abc import Mapping, Sequence

import pytest

from collector.align.expected import Expected
from collector.judge.tie_breakers.call_order import CallOrders
from collector.judge.verdict import set_scene
from shared.answer.words import Certainty, Kind
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.dumps import bare_rank
from tests.build.jobs.records import ISSUED, Row, judged_records, trace_of

TEAMS = {"0": range(6), "tp0": (0, 1), "tp1": (2, 3), "tp2": (4, 5)}


def usual(rank: int, steps: int = 3) -> list[Row]:
    """Steps of a program that reduces over a pair and then over the world."""
    return [row for step in range(1, steps + 1) for row in (Row(f"tp{rank // 2}", step), Row("0", step))]


def programs(rows: Mapping[int, Sequence[Row]], groups: Mapping[str, Sequence[int]] = TEAMS) -> CallOrders:
    dumps = []
    for rank, mine in rows.items():
        own = {name: ranks for name, ranks in groups.items() if rank in ranks}
        dumps.append(NodeSnapshot(live=False, ranks=(bare_rank(rank, trace_of(mine, own)),)))
    observations = set_scene(dumps, Expected(world_size=len(rows)))
    return CallOrders(observations.groups, observations.traces)


@pytest.mark.parametrize("odd", range(6))
def test_the_one_who_leaves_out_a_call_strays_wherever_it_is(odd: int) -> None:
    rows = {rank: usual(rank) for rank in range(6)}
    rows[odd] = [*usual(odd, 2), Row("0", 3)]
    strays = programs(rows).strays(range(6))
    assert [stray.rank for stray in strays] == [odd]
    assert (
        str(strays[0])
        == f"rank {odd} called all_reduce #3 of group 0 where 5 of its peers called all_reduce #3 of group tp"
    )


def test_two_ways_with_followers_each_are_no_stray() -> None:
    rows = {rank: usual(rank) for rank in range(6)}
    for rank in (2, 3):
        rows[rank] = [*usual(rank, 2), Row("0", 3), Row(f"tp{rank // 2}", 3)]
    assert programs(rows).strays(range(6)) == ()


def test_one_peer_alone_decides_nothing() -> None:
    groups = {"a": (0, 1), "b": (0, 1)}
    rows = {0: [Row("a", 1), Row("b", 1)], 1: [Row("b", 1), Row("a", 1)]}
    assert programs(rows, groups).strays((0, 1)) == ()


def test_who_has_stopped_earlier_on_the_common_way_strays_nowhere() -> None:
    rows = {rank: usual(rank, 1 + rank % 3) for rank in range(6)}
    assert programs(rows).strays(range(6)) == ()


def test_a_call_on_a_group_that_the_peers_are_not_in_is_its_own_affair() -> None:
    """Rank 0 and rank 1 alone have a group of their own; that rank 0 has come to it says nothing about anybody."""
    groups = {**TEAMS, "saving": (0, 1)}
    rows = {rank: usual(rank) for rank in range(6)}
    rows[0] = [*usual(0, 2), Row("saving", 1, ISSUED), *usual(0)[4:]]
    assert programs(rows, groups).strays(range(6)) == ()


def test_stages_of_a_pipeline_are_not_held_against_each_other() -> None:
    """Ranks 0 to 2 send what ranks 3 to 5 receive: the last stage has a call that the first has not."""
    groups = {"0": range(6), "first": (0, 1, 2), "last": (3, 4, 5), "pp0": (0, 3), "pp1": (1, 4), "pp2": (2, 5)}
    rows = {
        rank: [
            Row(f"pp{rank % 3}", 1, op="send" if rank < 3 else "recv", peers=(0, 1)),
            *([] if rank < 3 else [Row("last", 1)]),
            Row("0", 1),
        ]
        for rank in range(6)
    }
    rows[4] = [*rows[4][:1], Row("0", 1)]
    assert [stray.rank for stray in programs(rows, groups).strays(range(6))] == [4]


def test_across_stages_the_count_before_a_landmark_tells_who_left_a_call_out() -> None:
    """Two ranks to a stage, three stages that send and reduce in orders of their own: only the counts compare."""
    groups = {"0": range(6), "tp0": (0, 1), "tp1": (2, 3), "tp2": (4, 5), "pp": range(6)}
    send = Row("pp", 1, op="send", peers=(0, 1))
    rows = {
        rank: [*[send] * (rank // 2), Row(f"tp{rank // 2}", 1), Row(f"tp{rank // 2}", 2), send, Row("0", 1)]
        for rank in range(6)
    }
    rows[2] = [row for row in rows[2] if (row.group, row.sequence) != ("tp1", 2)]
    strays = programs(rows, groups).strays(range(6))
    assert [stray.rank for stray in strays] == [2]
    assert "#1 of group tp last before #1 of group 0" in str(strays[0])


def test_a_stray_among_those_who_are_stuck_together_is_suspected_and_no_more() -> None:
    rows = {rank: [*usual(rank, 2), Row(f"tp{rank // 2}", 3), Row("0", 3, ISSUED)] for rank in range(6)}
    rows[3] = [*usual(3, 2), Row("0", 3, ISSUED)]
    rows[2] = [*usual(2, 2), Row("tp1", 3), Row("0", 3, ISSUED)]
    finding = judged_records(rows, TEAMS).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, (3,))
    assert finding.certainty is Certainty.SUSPECTED
