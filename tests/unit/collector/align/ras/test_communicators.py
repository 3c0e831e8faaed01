"""Which rank a process of RAS's is, and reports that lie in files."""

import pytest

from collector.files.ras_files import with_ras
from shared.answer.words import Certainty, Kind, Verdict
from shared.formats.ras.parse import parse_ras
from shared.wire.ras import RasNetwork
from shared.wire.snapshot import NodeSnapshot
from tests.system.ras.looks import OUTSIDE, judge, looks_with_ras, members, report, seen_by
from tests.system.ras.reports import Comm, Member, comm, json_report, text_report


def test_reports_of_another_job_say_nothing() -> None:
    stranger = report(
        Comm(tuple(Member(rank, pid=7000 + rank, counts={"AllReduce": 9 - rank // 3}) for rank in range(4)))
    )
    plain = judge(looks_with_ras(seen_by(4, r1=OUTSIDE), stranger, stranger))
    assert all("RAS" not in remark for finding in plain.findings for remark in finding.remarks)
    assert plain.findings[0].culprit_ranks == (1,)


def test_pids_as_a_container_sees_them() -> None:
    """RAS tells inner pids; the agent says which of its own they are."""
    inner = report(
        Comm(tuple(Member(rank, pid=7 + rank, counts={"AllReduce": 60 if rank == 2 else 64}) for rank in range(4)))
    )
    snapshots = [
        look.model_copy(
            update={"ras": look.ras.model_copy(update={"pids": {7 + rank: 1000 + rank for rank in range(4)}})}
        )
        for look in looks_with_ras(seen_by(4, r2=OUTSIDE), inner, inner)
        if look.ras is not None
    ]
    assert judge(snapshots).findings[0].culprit_ranks == (2,)


def test_pids_alone_join_where_addresses_are_not_told() -> None:
    told = report(members({0: 64, 1: 64, 2: 60, 3: 64}))
    assert judge(looks_with_ras(seen_by(4, r2=OUTSIDE), told, told, addresses=())).findings[0].culprit_ranks == (2,)


def bare(*networks: RasNetwork) -> list[NodeSnapshot]:
    return list(with_ras((), networks))


def test_files_alone_two_reports_name_the_laggard() -> None:
    """By the number, host and pid that RAS tells of it."""
    first = parse_ras(json_report([comm([64] * 7 + [60])]))
    later = parse_ras(json_report([comm([64] * 7 + [60])], told_at="2026-05-04 03:14:09"))
    verdict = judge(bare(first, later))
    (finding,) = verdict.findings
    assert verdict.verdict is Verdict.HUNG
    (culprit,) = finding.culprits
    assert (culprit.rank, culprit.host, culprit.pid, culprit.gpu) == (7, "10.3.0.14", 4007, "7")
    assert finding.certainty is Certainty.SUSPECTED


@pytest.mark.parametrize("counts", [[64] * 7 + [61], [64] * 6 + [63, 60], [64] * 6 + [60] * 2, [64, 64, 60]])
def test_files_alone_one_report_is_not_enough(counts: list[int]) -> None:
    """Any job may look so for a moment."""
    verdict = judge(bare(parse_ras(text_report([comm(counts)]))))
    assert (verdict.verdict, verdict.findings) == (Verdict.CANNOT_TELL, ())
    assert "one look" in verdict.headline


def test_files_alone_one_report_on_one_rank_that_is_far_behind_all_others() -> None:
    """They are level, as ranks are that wait: the one is suspected, and that it was asked once is said."""
    verdict = judge(bare(parse_ras(text_report([comm([64] * 7 + [60])]))))
    (finding,) = verdict.findings
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (
        Kind.RANK_NOT_JOINED,
        (7,),
        Certainty.SUSPECTED,
    )
    assert any("asked only once" in remark for remark in finding.remarks)


def test_files_alone_a_pair_that_does_not_get_on() -> None:
    """Two reports alike, and of two neither has a majority: told, and nobody is named."""
    reports = [parse_ras(json_report([comm([10, 3])], told_at=f"2026-05-04 03:14:0{at}")) for at in (1, 9)]
    (finding,) = judge(bare(*reports)).findings
    assert (finding.culprits, finding.victims, finding.certainty) == ((), "0-1", Certainty.SUSPECTED)
    assert "rank 1 launched all_reduce up to 3" in finding.summary
    assert judge(bare(reports[0])).verdict is Verdict.CANNOT_TELL


def test_files_alone_a_dead_peer() -> None:
    verdict = judge(bare(parse_ras(json_report([comm([9] * 4, r3=Member(3, status="dead"))]))))
    (finding,) = verdict.findings
    assert (finding.kind, finding.culprit_ranks) == (Kind.RANK_UNREACHABLE, (3,))
    assert finding.certainty is Certainty.SUSPECTED


def test_what_is_left_of_a_report() -> None:
    """People keep the lines that seem to matter: then the counts tell how many ranks there are."""
    kept = text_report([comm([6650] * 26 + [6649] * 6)], version="2.24.3").rpartition(b"========\n\n")[2]
    verdict = judge(bare(parse_ras(kept)))
    assert verdict.coverage.expected == 32
    assert "ranks 26-31 launched any collective up to 6649" in verdict.headline
