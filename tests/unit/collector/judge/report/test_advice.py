"""Advice that single lines call for, and not where they do not."""

from collections.abc import Mapping

import pytest

from tests.build.jobs.four_ranks import looks_at_all_stuck
from tests.build.jobs.judged import judged
from tests.build.jobs.logged import judged_logs
from tests.build.jobs.verdicts import stuck_on_a_link

BOUND = "RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."


COMPLETION = (
    "node3:512:778 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB: Got completion from peer 10.0.0.7<41234> with "
    "status={} opcode=0 len=0 vendor err 81 (Send) hca mlx5_3"
)


WATCHDOG = (
    "[rank0]:[E1124 05:10:00.123456 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600012 milliseconds "
    "before timing out."
)


def steps(*lines: str, others: str = "starting") -> str:
    """All next steps of a job whose rank 1 wrote these lines."""
    answer = judged_logs({0: [others], 1: list(lines)}, world_size=2)
    return "\n".join(
        step.text for step in (*answer.next_steps, *(s for finding in answer.findings for s in finding.next_steps))
    )


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "CUDA_LAUNCH_BLOCKING=1"),
        ("RuntimeError: HIP error: unspecified launch failure", "HIP_LAUNCH_BLOCKING=1"),
        (BOUND, "port 29500 is taken"),
        (COMPLETION.format(4), "`ulimit -l` in the job"),
        (COMPLETION.format(5), "look for the first error of this connection"),
        (COMPLETION.format(10), "read what the other end logged"),
        (COMPLETION.format(12), "check the link between"),
    ],
)
def test_a_line_that_calls_for_it(line: str, advice: str) -> None:
    """As a next step, not as a remark alone; and a job that is dead is not looked at again."""
    told = steps(line)
    assert advice in told
    assert "look again" not in told


def test_memory_of_a_device_is_none_of_the_node() -> None:
    full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    told = steps(full, others=WATCHDOG)
    assert "its device's memory" in told
    assert "give the node" not in told


@pytest.mark.parametrize("line", ["RuntimeError: CUDA error: out of memory", "ValueError: loss is NaN", "epoch 3"])
def test_other_lines_call_for_none(line: str) -> None:
    """Memory that ran out is reported where it ran out."""
    assert not {word for word in ("LAUNCH_BLOCKING", "is taken") if word in steps(line)}


@pytest.mark.parametrize(
    ("operations", "hosts", "told"),
    [(1, {"a": "0-3"}, True), (4, {"a": "0-3"}, False), (1, {"a": "0-1", "b": "2-3"}, False)],
)
def test_devices_that_may_not_reach_each_other(operations: int, hosts: Mapping[str, str] | None, told: bool) -> None:
    """Only of one node that is known, and while no collective of the group has got through."""
    answer = judged(looks_at_all_stuck(hosts=hosts, operations=operations))
    texts = [step.text for finding in answer.findings for step in finding.next_steps]
    assert texts
    assert any("NCCL_P2P_DISABLE" in text for text in texts) is told


def test_nodes_on_which_nothing_diverges_can_be_tested() -> None:
    """All nodes whose ranks are stuck, by name."""
    (finding,) = stuck_on_a_link().findings
    assert "unhang preflight --ssh --hosts a,b" in [step.command for step in finding.next_steps]
