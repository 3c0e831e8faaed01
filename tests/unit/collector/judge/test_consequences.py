"""What follows on a wait in vain is no cause of it, and what an IB status says of whose fault it is."""

import pytest

from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Cause, Verdict
from tests.build.jobs.logged import caught, judged_logs, status

WAITS = {rank: [caught(rank, 12), status(rank, 12, 12)] for rank in (0, 1, 3)}
FAILURE = "[rank2]:[E1121 09:{}.0 ProcessGroupNCCL.cpp:655] CUDA error: unspecified launch failure"
COMPLETION = (
    "node1:42:51 [0] NCCL WARN NET/IB : Got completion from peer 10.1.2.4<45678> with status={} opcode=0 len=0 "
    "vendor err 81 (Recv) hca mlx5_1"
)


@pytest.mark.parametrize(("at", "culprits"), [("10:14", ()), ("00:41", (2,))], ids=["after the waits", "before them"])
def test_a_failure_and_the_waits(at: str, culprits: tuple[int, ...]) -> None:
    """The watchdogs spoke at 09:10:11, after ten minutes."""
    answer = judged_logs(WAITS | {2: [FAILURE.format(at)]}, world_size=4)
    assert answer.verdict is Verdict.HUNG
    assert [finding.culprit_ranks for finding in answer.findings] == [culprits]


def of_status(*statuses: int) -> Diagnosis:
    return judged_logs({0: [COMPLETION.format(each) for each in statuses]}, world_size=4)


def test_memory_of_an_adapter_is_no_link() -> None:
    (finding,) = of_status(4).findings
    assert "failed by itself; status 4: its memory is not registered" in finding.summary
    assert finding.links == ()
    assert finding.cause is Cause.UNKNOWN


@pytest.mark.parametrize(("statuses", "told"), [((12,), "12: nothing came back"), ((5, 12), "12: nothing came back")])
def test_a_link_has_two_ends(statuses: tuple[int, ...], told: str) -> None:
    """And what was flushed of it is not told."""
    (finding,) = of_status(*statuses).findings
    assert told in finding.summary
    assert "flushed" not in finding.summary
    assert [link.to.host for link in finding.links] == ["10.1.2.4"]


def test_what_was_flushed_is_a_consequence() -> None:
    assert "flushed from a queue that had failed before" in of_status(5).findings[0].summary
