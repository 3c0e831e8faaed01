"""RAS on its whole way: real processes, an agent, two looks, a verdict."""

import os
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from agent.app import create_app
from agent.proc.procfs import ProcFs
from agent.settings import AgentSettings
from agent.sources.ras.ras_source import addresses_of
from collector.gather.fanout.fanout import make_client
from collector.gather.sweep import sweep
from collector.gather.swept import Sweep
from collector.hostlists import AgentAddress
from collector.question import NativePolicy, Question
from shared.answer.words import Certainty, Kind
from shared.missing import Reason
from tests.build.processes.ports import free_port
from tests.build.processes.processes import HERE, until
from tests.system.ras.ranks import ras_rank
from tests.system.ras.reports import comm, json_report

pytestmark = pytest.mark.ptrace
DOING = ("waits", "waits", "sleeps", "sleeps")


async def sweep_real_ranks(folder: Path, version: str, *, looks: int = 2) -> Sweep:
    """Start four ranks of which two are outside, the counts of rank 2 behind, and judge them."""
    port, pids = free_port(), folder / "pids"
    pids.mkdir()
    host = next(iter(addresses_of(ProcFs(), os.getpid())), "10.3.0.14")
    report = json_report([comm([64, 64, 60, 64], host=host)], version=version).decode()
    app = create_app(AgentSettings(beat_seconds=0, host_name="box"))
    with ExitStack() as job:
        for rank, doing in enumerate(DOING):
            running = ras_rank(
                folder, port=port, rank=rank, version=version, job_port=29477, json=report, pids=str(pids),
                module="tests.system.ras.rank", arguments=(doing,), world_size=4,
            )  # fmt: skip
            job.enter_context(running)
        until(lambda: len(list(pids.iterdir())), lambda count: count == len(DOING))
        address = AgentAddress(host="box", url="http://box:8471")
        question = Question(job=f"{HERE}:29477", looks=looks, interval_seconds=5.5, native=NativePolicy.NEVER)
        async with make_client(mounts={address.url: httpx.ASGITransport(app)}) as client:
            return await sweep(question, [address], client)


async def test_counts_tell_which_of_two_outsiders_is_waited_for(tmp_path: Path) -> None:
    """By stacks both could be; RAS has counted that one of them is behind."""
    swept = await sweep_real_ranks(tmp_path, "2.29.2")
    (finding,) = swept.diagnosis.findings
    assert (finding.kind, finding.culprit_ranks) == (Kind.RANK_NOT_JOINED, (2,))
    assert finding.certainty is Certainty.SUPPORTED
    assert any("NCCL RAS" in item.text for item in finding.evidence)


async def test_a_refusal_is_told_beside_what_stacks_say(tmp_path: Path) -> None:
    """On 2.27.3 nobody asks, and the verdict says so."""
    swept = await sweep_real_ranks(tmp_path, "2.27.3", looks=1)
    refused = [gap for gap in swept.diagnosis.coverage.missing if gap.missing.source == "ras"]
    assert [gap.missing.reason for gap in refused] == [Reason.REFUSED]
    assert all("NCCL RAS" not in item.text for each in swept.diagnosis.findings for item in each.evidence)
