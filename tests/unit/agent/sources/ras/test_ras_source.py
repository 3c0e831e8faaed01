"""The source `ras`, asked of real processes that speak RAS's protocol, well and badly."""

import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.app import create_app
from agent.deadline import Deadline, ThreadPool
from agent.proc.procfs import ProcFs
from agent.settings import AgentSettings
from agent.sources.look_context import LookContext
from agent.sources.ras.ras_source import RasSource, RasTargets, addresses_of
from shared.missing import Reason
from shared.wire.snapshot import NodeSnapshot
from tests.build.processes.ports import free_port
from tests.build.processes.processes import HERE, find_rank, rank_environment, running
from tests.system.ras.ranks import ask_ras, ras_rank
from tests.system.ras.reports import Comm, Member, json_report

pytestmark = pytest.mark.ptrace


@pytest.mark.parametrize("version", ["2.24.3", "2.26.2", "2.28.9", "2.29.2"])
def test_every_version_answers(tmp_path: Path, version: str) -> None:
    """JSON where NCCL can, text where it says that it knows no such command."""
    with ras_rank(tmp_path, port=free_port(), version=version) as process:
        look, missing = ask_ras([find_rank(process.pid)], policy="always")
    assert missing == ()
    assert look is not None
    (network,) = look.networks
    assert (network.nccl_version, network.whole) == (version, version >= "2.28")
    assert process.pid in {peer.pid for peer in network.peers}
    assert network.asked_at_ns is not None and abs(time.time_ns() - network.asked_at_ns) < 60e9
    (one,) = network.communicators
    assert [level.operations for level in one.launched["collective" if version < "2.26" else "all_reduce"]] == [7, 9]


@pytest.mark.parametrize(
    "plan", [{"address": "::1"}, {"mode": "broken_utf8", "version": "2.26.2"}], ids=["IPv6", "broken characters"]
)
def test_odd_answers_are_read(tmp_path: Path, plan: dict[str, Any]) -> None:
    """Wherever RAS listens, and whatever bytes the names in its text consist of."""
    with ras_rank(tmp_path, port=free_port(), **plan) as process:
        look, missing = ask_ras([find_rank(process.pid)], policy="always")
    assert missing == () and look is not None and len(look.networks) == 1
    assert look.networks[0].nccl_version == plan.get("version", look.networks[0].nccl_version)


@pytest.mark.parametrize(
    ("mode", "version", "reason"),
    [
        ("silent", "2.28.9", Reason.TIMED_OUT),
        ("drip", "2.28.9", Reason.TIMED_OUT),
        ("half", "2.28.9", Reason.UNREADABLE),
        ("half", "2.26.2", Reason.UNREADABLE),  # half a text is not taken for a whole
        ("garbage", "2.28.9", Reason.UNREADABLE),
        ("deep", "2.28.9", Reason.UNREADABLE),
        ("no_greeting", "2.28.9", Reason.UNREADABLE),
        ("endless", "2.28.9", Reason.REFUSED),
    ],
)
def test_bad_answers_cost_one_missing(tmp_path: Path, mode: str, version: str, reason: Reason) -> None:
    began = time.monotonic()
    with ras_rank(tmp_path, port=free_port(), mode=mode, version=version) as process:
        seconds = 2.0 if reason is Reason.TIMED_OUT else 30.0
        look, (missing,) = ask_ras([find_rank(process.pid)], policy="always", seconds=seconds)
    assert (missing.source, missing.reason) == ("ras", reason)
    assert look is not None and look.networks == ()
    assert time.monotonic() - began < 30.0


@pytest.mark.parametrize("version", ["2.26.2", "2.28.9"])
def test_two_jobs_behind_one_door_are_told_apart(tmp_path: Path, version: str) -> None:
    """The kernel chooses who of those that share a port answers: ask until our own does, which text tells by few."""
    behind = partial(ras_rank, tmp_path, port=free_port(), version=version)
    with ExitStack() as jobs:
        others = [jobs.enter_context(behind(rank=rank, job_port=29500)) for rank in range(2)]
        mine = jobs.enter_context(behind(rank=0, job_port=29400))
        found = {process.pid: find_rank(process.pid) for process in (*others, mine)}
        look, missing = ask_ras([found[mine.pid]], policy="always", everyone=list(found.values()))
    assert missing == () and look is not None
    (network,) = look.networks
    pids = {peer.pid for peer in network.peers}
    assert mine.pid in pids and not pids & {process.pid for process in others}


def test_another_job_on_a_dangerous_version_is_not_asked_by_chance(tmp_path: Path) -> None:
    """Whoever shares the endpoint may be the one that answers; of a stranger there nothing is known at all."""
    port = free_port()
    with ExitStack() as jobs:
        mine = jobs.enter_context(ras_rank(tmp_path, port=port, job_port=29400))
        other = jobs.enter_context(ras_rank(tmp_path, port=port, job_port=29500, version="2.27.3"))
        ranks = [find_rank(process.pid) for process in (mine, other)]
        _, (known,) = ask_ras(ranks[:1], everyone=ranks)
        _, (stranger,) = ask_ras(ranks[:1])
    assert known.reason is stranger.reason is Reason.REFUSED
    assert "2.27.3" in known.detail and "not known ranks" in stranger.detail


def test_a_stopped_rank_does_not_keep_its_neighbours_silent(tmp_path: Path) -> None:
    """It accepts connections and never greets; another try reaches somebody else."""
    port = free_port()
    with ExitStack() as job:
        ranks = [job.enter_context(ras_rank(tmp_path, port=port, rank=rank)) for rank in range(2)]
        found = [find_rank(process.pid) for process in ranks]
        os.kill(ranks[1].pid, signal.SIGSTOP)
        look, missing = ask_ras(found[:1], everyone=found, seconds=9.0)
    assert missing == () and look is not None and len(look.networks) == 1


def test_processes_that_are_no_more(tmp_path: Path) -> None:
    """Of this node, of those that do not answer RAS, who has no process; of the rest nobody here can say."""
    ended, far = subprocess.Popen(["true"]), "192.0.2.200"
    ended.wait()
    odd = {"status": "dead", "host": "127.0.0.1"}
    with ExitStack() as job:
        alive = job.enter_context(running(env=rank_environment(1)))
        silent = Comm((
            Member(0, host="127.0.0.1"),
            Member(1, pid=alive.pid, **odd),
            Member(2, pid=ended.pid, **odd),
            Member(3, pid=ended.pid, status="dead", host=far),
            Member(4, pid=ended.pid - 1 or 1, host="127.0.0.1"),
        ))  # fmt: skip
        told = json_report([silent]).decode().replace('"pid": 4000', '"pid": {pid}')
        process = job.enter_context(ras_rank(tmp_path, port=free_port(), json=told))
        look, _ = ask_ras([find_rank(process.pid)])
    assert look is not None and look.gone == (("127.0.0.1", ended.pid),)


def test_what_was_told_stands_for_a_moment(tmp_path: Path) -> None:
    """Looks in quick succession ask once: each question costs the whole job a round of messages."""
    with ras_rank(tmp_path, port=free_port()) as process:
        rank, source = find_rank(process.pid), RasSource("safe", ThreadPool())
        first, _ = ask_ras([rank], source=source)
        second, _ = ask_ras([rank], source=source)
    assert first is not None and second is not None
    assert first.networks[0].asked_at_ns == second.networks[0].asked_at_ns


def test_nobody_is_asked_unasked(tmp_path: Path) -> None:
    """Without the question only by what RAS would know the node is told, and connections are none."""
    with ras_rank(tmp_path, port=free_port(), mode="garbage") as process:
        source, rank = RasSource("safe", ThreadPool()), find_rank(process.pid)
        look, missing = source.look(
            RasTargets([rank], [rank], (), (), False), LookContext(ProcFs(), "here"), Deadline(5)
        )
    assert missing == () and look is not None
    assert look.networks == () and look.addresses == addresses_of(ProcFs(), os.getpid())


def test_a_rank_without_ras_says_nothing() -> None:
    """A CPU job has no NCCL: that is no gap; one that has switched RAS off says so."""
    with running(env=rank_environment()) as process, running(env=rank_environment(NCCL_RAS_ENABLE="0")) as off:
        assert ask_ras([find_rank(process.pid)]) == (None, ())
        _, (missing,) = ask_ras([find_rank(off.pid)])
    assert (missing.source, missing.reason) == ("ras", Reason.NOT_ENABLED)


def test_dangerous_versions_are_asked_only_by_order(tmp_path: Path) -> None:
    """2.27.3, and one that does not tell its version; where RAS is switched off here, none is."""
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(b"\0" * 4096)
    with (
        ras_rank(tmp_path, port=free_port(), version="2.27.3") as process,
        ras_rank(tmp_path, port=free_port(), library=str(library)) as mute,
    ):
        rank = find_rank(process.pid)
        look, (missing,) = ask_ras([rank])
        forced, none = ask_ras([rank], policy="always")
        never, (off,) = ask_ras([rank], policy="never")
        _, (unknown,) = ask_ras([find_rank(mute.pid)])
    assert look is not None and look.networks == ()
    assert (missing.source, missing.reason) == ("ras", Reason.REFUSED)
    assert "2.27.3" in missing.detail and "--ras always" in missing.detail
    assert none == () and forced is not None and len(forced.networks) == 1
    assert never is None and off.reason is Reason.NOT_ENABLED
    assert unknown.reason is Reason.REFUSED and "is unknown" in unknown.detail


async def test_ras_is_asked_on_demand(tmp_path: Path) -> None:
    """Over HTTP: a plain look asks nobody, `ras=true` does, and the audit log tells which it was."""
    app = create_app(AgentSettings(beat_seconds=0, audit_log=tmp_path / "audit"))
    with ras_rank(tmp_path, port=free_port(), job_port=29433) as process:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent") as client:
            answers = [
                await client.get("/v1/snapshot", params={"job": f"{HERE}:29433", "stacks": "none", "ras": ras})
                for ras in (False, True)
            ]
    plain, asked = (NodeSnapshot.model_validate_json(answer.content) for answer in answers)
    assert plain.ras is not None and plain.ras.networks == ()
    assert asked.ras is not None and process.pid in {peer.pid for peer in asked.ras.networks[0].peers}
    assert [json.loads(line)["ras"] for line in (tmp_path / "audit").read_text().splitlines()] == [False, True]
