"""Flight records written by hand: counted from zero, of unknown members, contradictory, and where each side called."""

from array import array
from collections.abc import Mapping, Sequence

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from collector.show.views import view_sequences
from shared.answer.words import Certainty, Kind
from shared.wire.snapshot import NodeSnapshot
from tests.build.jobs.dumps import bare_rank
from tests.build.jobs.judged import judged
from tests.build.jobs.records import ISSUED, Row, judged_records, trace_of


def counted_from_zero(rows: Mapping[int, Sequence[Row]]) -> list[NodeSnapshot]:
    """Dumps as torchcomms writes them: it counts sequences and operations from 0."""
    dumps = []
    for rank, mine in rows.items():
        trace = trace_of(mine, {"0": range(len(rows))}).model_copy(update={"op_id": array("q", range(len(mine)))})
        dumps.append(NodeSnapshot(live=False, ranks=(bare_rank(rank, trace),)))
    return dumps


def test_a_recorder_that_counts_from_zero_is_heard_from_its_first_collective_on() -> None:
    dumps = counted_from_zero({0: [Row("0", 0, ISSUED)], 1: [], 2: [Row("0", 0, ISSUED)]})
    answer = diagnose(dumps, Expected(world_size=3))
    assert [(f.kind, f.culprit_ranks) for f in answer.findings] == [(Kind.RANK_NOT_JOINED, (1,))]
    assert "0,2 at 0; 1 at none" in answer.findings[0].evidence[0].text
    (table,) = view_sequences(dumps, Expected()).groups
    assert [(lane.issued, lane.completed) for lane in table.lanes] == [(0, -1), (-1, -1), (0, -1)]


def test_a_recorder_that_counts_from_zero_shows_who_called_something_else_first() -> None:
    calls = {0: "all_reduce", 1: "all_gather", 2: "all_reduce"}
    answer = diagnose(counted_from_zero({rank: [Row("0", 0, ISSUED, op)] for rank, op in calls.items()}), Expected())
    assert [(f.kind, f.culprit_ranks, f.sequence) for f in answer.findings] == [(Kind.COLLECTIVE_MISMATCH, (1,), 0)]


def test_an_index_into_an_inferred_list_is_not_a_rank() -> None:
    """Of a pipeline of four the dump of its third rank is lost, and no dump names the members: nobody waits for it
    under another's name, and nobody for himself."""
    stages = (10, 18, 26, 34)
    rows = {
        10: [Row("pp", 1, ISSUED, "recv", peers=(1, 0))],
        18: [Row("pp", 1, ISSUED, "recv", peers=(2, 1))],
        34: [Row("pp", 1, ISSUED, "recv", peers=(2, 3))],
    }
    untold = {"pp": stages}
    dumps = []
    for rank, mine in rows.items():
        trace = trace_of(mine, untold)
        silent = tuple(group.model_copy(update={"members": None}) for group in trace.groups)
        bare = bare_rank(rank, trace.model_copy(update={"groups": silent}))
        dumps.append(NodeSnapshot(live=False, ranks=(bare,)))
    diagnosis = diagnose(dumps, Expected())
    edges = [wait for finding in diagnosis.findings for item in finding.evidence for wait in getattr(item, "waits", ())]
    assert all(str(wait.rank) != wait.waits_for for wait in edges)
    assert all(finding.certainty is not Certainty.PROVEN for finding in diagnosis.findings)
    assert not any(finding.culprits for finding in diagnosis.findings if finding.kind is Kind.P2P_DEADLOCK)


def test_record_whose_copies_contradict_each_other_is_a_conflict() -> None:
    """What was read from memory and what the rank's server answers: the reader is told that the two differ."""
    trace = trace_of([Row("a", 1)], {"a": (0,)}).model_copy(update={"contradiction": "1 of 2 operations differ"})
    diagnosis = judged([NodeSnapshot(live=False, ranks=(bare_rank(0, trace),))], Expected(world_size=1))
    assert [(c.sources, c.text) for c in diagnosis.conflicts] == [
        (("recorder", "recorder"), "rank 0: 1 of 2 operations differ")
    ]


def test_each_side_of_a_mismatch_names_the_line_that_called_it() -> None:
    """Where one rank calls what the others do not is the line to look at."""
    ops = {rank: ("all_gather", 10) if rank == 2 else ("all_reduce", 9) for rank in range(4)}
    rows = {rank: [Row("a", 1, line=7), Row("a", 2, ISSUED, op, line=line)] for rank, (op, line) in ops.items()}
    finding = judged_records(rows, {"a": range(4)}).findings[0]
    (mismatch,) = (item for item in finding.evidence if item.kind == "signature")
    lines = {side.op: side.call_site.line for side in mismatch.sides if side.call_site is not None}
    assert lines == {"all_reduce": 9, "all_gather": 10}
