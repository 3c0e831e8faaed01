"""What ranks on a silent node do is not known: they are told, blamed only where nobody else is, and given time."""

import time
from collections.abc import Collection, Sequence
from functools import lru_cache

import pytest

from collector.align.expected import Expected, Unanswered
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import AbsenceEvidence, Diagnosis, FdEvidence, LogEvidence
from shared.answer.words import Certainty, Kind, Verdict
from shared.missing import Missing, Reason
from shared.rank_sets import fold, unfold
from shared.wire.snapshot import Fds, NodeSnapshot, Socket
from shared.wire.survey_form import Survey
from shared.wire.survey_read import SurveyReader
from shared.wire.survey_write import survey_of
from tests.bench.simulated.job import NAME, PER_NODE, SimulatedJob, host_of
from tests.bench.simulated.nodes import SimulatedNode, stopped_before
from tests.build.jobs.four_ranks import AWAY, TWO_NODES, looks_at_all_stuck, looks_without
from tests.build.jobs.judged import judged
from tests.build.jobs.logged import caught, logs_of
from tests.build.jobs.placed import placed, with_rank
from tests.build.jobs.simulated import USER, Collective, Job, Seen, Stay, Step, live_looks

HERE = {"kind": "tcp", "local": "10.0.0.1:7", "remote": "10.0.0.8:9", "state": "ESTABLISHED"}


def looks_beside(
    *astray: int, after_seconds: float = 60.0, recorder: bool = True, silent: str | None = None
) -> list[NodeSnapshot]:
    """Four ranks on two nodes, of which some stay away; one node does not answer."""
    away = dict.fromkeys(astray, AWAY)
    found = looks_without(away, hosts=TWO_NODES, after_seconds=after_seconds, interval_seconds=10.0, recorder=recorder)
    return [look for look in found if look.host != silent]


def judged_beside(snapshots: Sequence[NodeSnapshot], silent: str, *, known: bool = True) -> Diagnosis:
    """The verdict where a node gave no answer, whose ranks are known from before or not."""
    missing = Missing(source=f"http://{silent}:8471", reason=Reason.TIMED_OUT)
    node = Unanswered(host=silent, missing=missing, ranks=TWO_NODES[silent] if known else "")
    return judged(snapshots, Expected(job="sim", world_size=4, unanswered=(node,)))


def test_whoever_is_seen_to_stay_away_is_blamed_alone() -> None:
    """By records and by stacks: those on the silent node may wait like the others."""
    for recorder in (True, False):
        diagnosis = judged_beside(looks_beside(0, silent="b", recorder=recorder), "b")
        (finding,) = diagnosis.findings
        assert (finding.kind, finding.culprit_ranks, finding.victims) == (Kind.RANK_NOT_JOINED, (0,), "1")
        assert "b" in {gap.host for gap in diagnosis.coverage.missing}


def test_where_nobody_else_is_to_blame_the_node_is_and_nothing_is_proven() -> None:
    """Its agent may be all that has ended."""
    (finding,) = judged_beside(looks_beside(3, silent="b"), "b").findings
    assert (finding.kind, finding.certainty) == (Kind.RANK_UNREACHABLE, Certainty.SUPPORTED)
    assert {culprit.host for culprit in finding.culprits} == {"b"}
    assert "ranks 2-3 are on b, which does not answer, and may not have joined all_reduce" in finding.summary
    (finding,) = judged_beside(looks_beside(3, silent="b"), "b", known=False).findings
    assert finding.certainty is Certainty.SUSPECTED


def test_ranks_that_nobody_sees_may_be_at_work_for_a_while() -> None:
    """A healthy job may take as long for a step, and its agent on one node may be gone."""
    diagnosis = judged_beside(looks_beside(3, silent="b", after_seconds=20.0), "b")
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.CANNOT_TELL, ())
    assert "others have waited for ranks 2-3 on b, which does not answer, for 30.0 s" in diagnosis.headline


OUT_OF_MEMORY = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def logged(snapshots: Sequence[NodeSnapshot], *lines: str) -> list[NodeSnapshot]:
    """The looks, the last with what a shared log holds."""
    common = logs_of(lines, rank=None)
    return [*snapshots[:-1], snapshots[-1].model_copy(update={"logs": common})]


def test_a_silent_node_whose_rank_a_log_names_needs_no_time_to_be_told() -> None:
    """Silence alone is given a minute; that its rank ran out of memory is more than silence."""
    snapshots = looks_beside(3, silent="b", after_seconds=20.0)
    assert judged_beside(snapshots, "b").findings == ()
    lines = (OUT_OF_MEMORY, caught(0, 5), caught(1, 5))
    (finding,) = judged_beside(logged(snapshots, *lines), "b").findings
    assert (finding.kind, {culprit.host for culprit in finding.culprits}) == (Kind.RANK_UNREACHABLE, {"b"})
    assert any(each.line == OUT_OF_MEMORY for each in finding.evidence if isinstance(each, LogEvidence))


def test_log_lines_that_name_nobody_there_give_a_silent_node_its_time() -> None:
    """That somebody logged something is no accusation, whatever evidence it would be beside one."""
    snapshots = looks_beside(3, silent="b", after_seconds=20.0)
    diagnosis = judged_beside(logged(snapshots, "[rank0]: step 41 loss 2.31", "[rank1]: step 41 loss 2.31"), "b")
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.CANNOT_TELL, ())


def test_a_silent_node_whose_rank_a_log_names_stands_beside_the_culprit_that_is_seen() -> None:
    node = Unanswered(host="b", missing=Missing(source="b", reason=Reason.TIMED_OUT), ranks="3")
    snapshots = logged(split(seen_stays=True), OUT_OF_MEMORY, caught(0, 3), caught(1, 3))
    found = diagnose(snapshots, Expected(job="sim", world_size=4, unanswered=(node,))).findings
    assert [(each.kind, each.culprit_ranks) for each in found] == [
        (Kind.RANK_NOT_JOINED, (2,)),
        (Kind.RANK_UNREACHABLE, (3,)),
    ]


def test_connections_to_the_silent_node_tell_of_the_network() -> None:
    """Others send to an address that no rank has which is seen, and nobody acknowledges it."""
    lost = Socket.model_validate({**HERE, "fd": 30, "unsent_bytes": 96, "retransmits": 8})
    well = Socket.model_validate({**HERE, "fd": 31, "remote": "10.0.0.9:9"})
    snapshots = with_rank(looks_beside(3, silent="b"), 0, fds=Fds(total=2, sockets=(lost, well)))
    (finding,) = judged_beside(snapshots, "b").findings
    assert (finding.kind, finding.cause) == (Kind.RANK_UNREACHABLE, "network")
    assert [(link.from_.host, link.to.host) for link in finding.links] == [("a", "10.0.0.8:9")]
    assert [unfold(e.ranks) for e in finding.evidence if isinstance(e, FdEvidence)] == [(0,)]


def under_way(after_seconds: float, **sent: int) -> Diagnosis:
    """All have joined, nobody gets out, and some of what rank 0 has sent to rank 3 may not have come."""
    snapshots = looks_at_all_stuck(after_seconds=after_seconds)
    here = Socket.model_validate({**HERE, "fd": 30, **sent})
    there = Socket(fd=31, kind="tcp", local="10.0.0.8:9", remote="10.0.0.1:7", state="ESTABLISHED")
    snapshots = with_rank(snapshots, 0, fds=Fds(total=1, sockets=(here,)))
    return diagnose(with_rank(snapshots, 3, fds=Fds(total=1, sockets=(there,))), Expected(world_size=4))


def test_while_data_is_under_way_a_network_may_only_be_slow() -> None:
    """It is told between which ranks; after a minute it counts as hung."""
    diagnosis = under_way(10.0, unsent_bytes=96, retransmits=4)
    assert diagnosis.verdict is Verdict.CANNOT_TELL
    assert "data, sent 5 times, from rank 0 on a to rank 3 on b has not been acknowledged" in diagnosis.headline
    assert "data from rank 0 on a to rank 3 on b has not" in under_way(10.0, unsent_bytes=96).headline
    assert under_way(60.0, unsent_bytes=96, retransmits=8).findings[0].cause == "network"


def test_where_nothing_is_under_way_no_network_holds_them_up() -> None:
    """All data has come, and still nobody gets on."""
    diagnosis = under_way(10.0, retransmits=9)
    assert (diagnosis.verdict, diagnosis.findings[0].kind) == (Verdict.HUNG, Kind.STUCK_TOGETHER)


NODES = 64
SILENT = tuple(range(1, NODES, 6))[:10]
"""Ten nodes of all stages of the pipeline, without the culprit's."""


@lru_cache(maxsize=1)
def large_job() -> tuple[NodeSnapshot, ...]:
    """Surveys of a job of 64 nodes, of which one rank waits for its DataLoader, one for each node."""
    now, job, reader = time.time_ns(), SimulatedJob(NODES), SurveyReader()
    return tuple(
        reader.snapshot_of(_survey(SimulatedNode(job, at, stopped_ns=stopped_before(now)), now)) for at in range(NODES)
    )


def _survey(node: SimulatedNode, now: int) -> Survey:
    seen = node.snapshot()
    ranks = tuple(r.model_copy(update={"looked_at_ns": now, "idle_for_seconds": 100.0}) for r in seen.ranks)
    return survey_of(seen.model_copy(update={"taken_at_ns": now, "ranks": ranks}))


def judged_without(silent: Collection[int], *, known: bool) -> Diagnosis:
    """The verdict on the large job, where some nodes give no answer."""
    told = tuple(
        Unanswered(
            host=host_of(at),
            missing=Missing(source=host_of(at), reason=Reason.TIMED_OUT),
            ranks=fold(range(at * PER_NODE, (at + 1) * PER_NODE)) if known else "",
        )
        for at in silent
    )
    seen = [snapshot for at, snapshot in enumerate(large_job()) if at not in silent]
    return diagnose(seen, Expected(job=NAME, unanswered=told))


@pytest.mark.parametrize("known", [True, False])
def test_beside_a_culprit_that_is_seen_ten_silent_nodes_are_no_findings(known: bool) -> None:
    """They are told in what was not seen; whether their ranks are known from before changes nothing."""
    diagnosis = judged_without(SILENT, known=known)
    (finding,) = diagnosis.findings
    assert finding.culprit_ranks == (SimulatedJob(NODES).culprit,)
    assert (finding.kind, finding.certainty) == (Kind.RANK_NOT_JOINED, Certainty.PROVEN)
    assert {host_of(at) for at in SILENT} <= {gap.host for gap in diagnosis.coverage.missing}


@pytest.mark.parametrize(("known", "certainty"), [(True, Certainty.SUPPORTED), (False, Certainty.SUSPECTED)])
def test_where_no_culprit_is_seen_all_silent_nodes_are_one_finding(known: bool, certainty: Certainty) -> None:
    """Each of eight data groups waits for a rank on each of them; that is one fault, told by node."""
    job = SimulatedJob(NODES)
    home = job.culprit // PER_NODE
    diagnosis = judged_without({*SILENT, home}, known=known)
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.certainty) == (Kind.RANK_UNREACHABLE, certainty)
    same_stage = {at for at in (*SILENT, home) if job.stage(at * PER_NODE) == job.stage(job.culprit)}
    assert {rank // PER_NODE for rank in finding.culprit_ranks} == same_stage
    absences = [evidence for evidence in finding.evidence if isinstance(evidence, AbsenceEvidence)]
    assert len(absences) == (len(same_stage) if known else 1)
    assert (host_of(home) in finding.summary) is known


def split(*, seen_stays: bool) -> list[NodeSnapshot]:
    """Rank 0 waits for rank 2 in a pair, rank 1 for rank 3 in another; node b has rank 3, and does not answer."""
    steps: dict[int, list[Step]] = {rank: [Collective("02" if rank % 2 == 0 else "13")] * 4 for rank in range(4)}
    steps[3][2:] = [Stay()]
    steps[2][2:] = [Stay()] if seen_stays else [Collective("02")] * 2
    job = Job(steps, {"02": (0, 2), "13": (1, 3)})
    seen = {rank: Seen((USER,)) if rank == 2 and seen_stays else Seen() for rank in range(3)}
    return placed(live_looks(job, seen, world_size=4, after_seconds=90.0), {"a": "0-2"})


def test_ranks_on_a_silent_node_that_others_wait_for_are_told_beside_the_culprit_that_is_seen() -> None:
    """They may wait as well; whoever reads it learns that there is more to look at."""
    node = Unanswered(host="b", missing=Missing(source="b", reason=Reason.TIMED_OUT), ranks="3")
    (finding,) = diagnose(split(seen_stays=True), Expected(job="sim", world_size=4, unanswered=(node,))).findings
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (Kind.RANK_NOT_JOINED, (2,), Certainty.PROVEN)
    assert "others also wait for rank 3 on b, which does not answer, and it may be waiting, too" in finding.remarks


def test_what_connections_tell_of_a_silent_node_stands_beside_the_culprit_that_is_seen() -> None:
    """Nobody acknowledges what is sent there: more than that an agent is silent."""
    lost = Socket.model_validate({**HERE, "fd": 30, "unsent_bytes": 96, "retransmits": 8})
    snapshots = with_rank(split(seen_stays=True), 1, fds=Fds(total=1, sockets=(lost,)))
    node = Unanswered(host="b", missing=Missing(source="b", reason=Reason.TIMED_OUT), ranks="3")
    seen, broken = diagnose(snapshots, Expected(job="sim", world_size=4, unanswered=(node,))).findings
    assert (seen.culprit_ranks, broken.culprit_ranks, broken.cause) == ((2,), (3,), "network")
