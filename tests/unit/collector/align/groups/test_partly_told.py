"""Members of a group that only some ranks tell: it is one group, and the others are as far in it as they are."""

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.groups.process_groups import line_up
from shared.wire.snapshot import NodeSnapshot
from shared.wire.trace import Trace
from tests.build.jobs.dumps import bare_rank
from tests.build.jobs.records import ISSUED, Row, trace_of

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
