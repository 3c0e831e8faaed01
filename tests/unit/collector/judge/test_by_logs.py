"""Votes over the lines of all ranks: who is named, who never is, and what is told where nobody can be."""

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Cause, Kind, Verdict
from tests.build.jobs.cases import LOG_CASES
from tests.build.jobs.logged import judged_logs, snapshot


@pytest.mark.parametrize("name", LOG_CASES)
def test_what_logs_are_read_as(name: str) -> None:
    LOG_CASES[name].check()


def test_who_has_not_come_is_absent_in_the_evidence() -> None:
    (finding,) = LOG_CASES["counters: who is not past what the others wait for"].diagnosis.findings
    assert [e.absent for e in finding.evidence if e.kind == "sequence"] == ["2"]


def test_a_link_has_two_ends_and_neither_is_convicted() -> None:
    error = (
        "node1:42:51 [0] NCCL WARN NET/IB: Got completion from peer 10.1.2.3<40123> with status=12 opcode=0 len=0 "
        "vendor err 129 (Recv) hca mlx5_1"
    )
    using = "node2:43:52 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.3<0>"
    (finding,) = judged_logs({0: [error], 1: [using]}, hosts={0: "node1", 1: "node2"}).findings
    assert (finding.kind, finding.cause, finding.culprits) == (Kind.STUCK_TOGETHER, Cause.NETWORK, ())
    (link,) = finding.links
    assert (link.from_.rank, link.from_.host, link.to.host, link.interface) == (0, "node1", "node2", "mlx5_1")


OPENED = "node0:42:51 [0] NCCL INFO NET/IB : Using [0]mlx5_2:1/RoCE [1]mlx5_3:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
REFUSED = "node1:42:51 [0] transport/net_ib.cc:214 NCCL WARN NET/IB : Unable to open device mlx5_3"
INTERFACE = "node{0}:42:51 [0] NCCL INFO NET/Socket : Using [0]eth{1}:10.0.0.{0}<0>"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([INTERFACE.format(rank, int(rank == 2)) for rank in range(4)], "node2: eth1"),
        ([INTERFACE.format(rank, int(rank == 2)) for rank in (2, 3)], None),
        ([OPENED, REFUSED], "NCCL could not open mlx5_3 on node1; node0 took it"),
        ([OPENED.replace("mlx5_3", "mlx5_4"), REFUSED], None),
        ([REFUSED, REFUSED], None),
    ],
)
def test_what_one_node_chose_or_was_refused_is_a_conflict_and_no_verdict(lines: list[str], told: str | None) -> None:
    found = judged_logs({rank: [line] for rank, line in enumerate(lines)})
    assert found.verdict is Verdict.CANNOT_TELL
    assert [told in conflict.text for conflict in found.conflicts if told] == [True] * (told is not None)
    assert bool(found.conflicts) is (told is not None)


def test_no_log_no_word() -> None:
    assert diagnose([snapshot({})], Expected()).verdict is Verdict.CANNOT_TELL
