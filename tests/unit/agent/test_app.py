"""The agent as its callers see it: routes, errors, tokens, metrics, the audit log."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from agent.app import create_app
from agent.serve import serve
from agent.settings import AgentSettings
from shared.errors import InvalidSettings
from shared.missing import Missing
from shared.wire.log_events import Logs
from shared.wire.snapshot import Fds, NodeSnapshot, Process, RankList
from shared.wire.stacks import Stacks
from tests.build.processes.ports import free_port
from tests.build.processes.processes import HERE, SLEEP, rank_environment, running
from tests.build.processes.waiting import until_it_answers

pytestmark = [pytest.mark.ptrace, pytest.mark.anyio, pytest.mark.slow]

PORT = 29421
JOB = f"{HERE}:{PORT}"


@asynccontextmanager
async def agent(**settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Run an agent in this process, with its lifespan; without a beat, which would search all of this machine."""
    app = create_app(AgentSettings(**{"host_name": "here", "beat_seconds": 0, **settings}))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://agent", timeout=30) as client,
    ):
        yield client


@contextmanager
def job(ranks: int = 2) -> Iterator[list[int]]:
    """Run a job of sleeping ranks, and return their pids."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(running(SLEEP, env=rank_environment(rank, port=PORT, world_size=ranks))).pid
            for rank in range(ranks)
        ]


async def test_health_needs_no_job() -> None:
    """It says who answers. A node without ranks of a job has nothing to say about it, which is no error."""
    async with agent() as client:
        answer, nobody = await client.get("/healthz"), await client.get("/v1/snapshot", params={"job": "nobody"})
    assert answer.json() == {"status": "ok", "version": "0.1.0", "host": "here", "avoided": [], "lost_threads": 0}
    assert (nobody.status_code, nobody.json()["ranks"]) == (200, [])


async def test_names_of_files_that_are_no_text(tmp_path: Path) -> None:
    """Linux lets any bytes be a name: the descriptors and the log of such a rank are seen."""
    folder = tmp_path / os.fsdecode(b"odd\xff")
    folder.mkdir()
    program = (
        "import os, sys\nkept = open(b'open\\xfe', 'w')\nlog = open(b'log\\xff', 'w')\n"
        "out = os.dup(1)\nos.dup2(log.fileno(), 1)\nos.write(out, b'ready\\n')\n"
    )
    environment = rank_environment(0, port=PORT, world_size=1)
    with running(program + "import time\ntime.sleep(600)\n", env=environment, cwd=folder):
        async with agent() as client:
            answer = await client.get("/v1/snapshot", params={"job": JOB})
    (rank,) = NodeSnapshot.model_validate_json(answer.content).ranks
    assert isinstance(rank.fds, Fds) and any(name.endswith("/odd?/open?") for name in rank.fds.files.values())
    assert isinstance(rank.logs, Logs) and rank.logs.files[0].path.endswith("/odd?/log?")


async def test_ranks_and_snapshots_of_a_job() -> None:
    """Ranks without looking at them; each with all its parts, in order; of some, that this is not the whole node."""
    with job() as pids:
        async with agent() as client:
            listed = RankList.model_validate_json((await client.get("/v1/ranks")).content)
            questions = ({"job": JOB}, {"pid": [pids[1]], "stacks": "none"})
            answers = [await client.get("/v1/snapshot", params=each) for each in questions]
    assert [(i.rank, i.pid) for i in listed.ranks if i.job == JOB] == list(enumerate(pids))
    found, some = (NodeSnapshot.model_validate_json(answer.content) for answer in answers)
    assert [rank.identity.pid for rank in found.ranks] == pids
    assert (listed.host, found.host, found.live, found.whole) == ("here", "here", True, True)
    assert found.taken_at_ns is not None
    for rank in found.ranks:
        assert isinstance(rank.process, Process) and isinstance(rank.stacks, Stacks)
        assert isinstance(rank.recorder, Missing)
    assert ([rank.identity.pid for rank in some.ranks], some.whole) == ([pids[1]], False)
    assert isinstance(some.ranks[0].stacks, Missing)


@pytest.mark.parametrize("part", ["stacks", "fds", "logs", "recorder", "process"])
async def test_one_part_of_one_rank(part: str) -> None:
    """Each source has its route."""
    with job(1) as (pid,):
        async with agent() as client:
            answer = await client.get(f"/v1/ranks/{pid}/{part}")
    assert answer.status_code == 200
    body = answer.json()
    expected = {"stacks": "threads", "fds": "full", "process": "state"}.get(part)
    assert expected in body if expected else body.get("source") == part or "files" in body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/ranks/1/stacks", 404),
        ("/v1/ranks/0/stacks", 422),
        ("/v1/ranks/all/stacks", 422),
        ("/v1/snapshot?stacks=everything", 422),
        ("/v1/snapshot?window=-1", 422),
        ("/v1/snapshot?timeout=0", 422),
        ("/v1/nothing", 404),
    ],
)
async def test_questions_that_make_no_sense(path: str, status: int) -> None:
    """Each is answered with a problem document."""
    async with agent() as client:
        answer = await client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_rank_that_was_not_listed_in_time() -> None:
    """It is not said to be gone: the machine is busy."""
    with job() as pids:
        async with agent(look_timeout_seconds=0.2) as client:  # all of which is kept for the answer
            answer = await client.get(f"/v1/ranks/{pids[0]}/process")
    assert answer.status_code == 503
    assert "takes too long" in answer.json()["detail"]


async def test_tokens_guard_everything_but_health(tmp_path: Path) -> None:
    """Metrics too: they name jobs."""
    tokens = tmp_path / "tokens"
    tokens.write_text("let-me-in\n")
    tokens.chmod(0o600)
    async with agent(token_file=tokens) as client:
        for path in ("/v1/ranks", "/v1/snapshot", "/metrics", "/v1/ranks/1/fds"):
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert (await client.get("/healthz")).status_code == 200
        allowed = await client.get("/v1/ranks", headers={"Authorization": "Bearer let-me-in"})
    assert allowed.status_code == 200


async def test_metrics_tell_of_ranks_and_sources() -> None:
    """In Prometheus' own words, and of problems, too. Idle time is known where the agent watches, and else is not."""
    with job() as pids:
        async with agent(beat_seconds=0.1) as client:
            await client.get("/v1/snapshot", params={"job": JOB})
            await client.get("/v1/nothing")
            for _ in range(600):
                watched = (await client.get("/v1/snapshot", params={"pid": pids[0]})).json()["ranks"][0]
                if (watched["idle_for_seconds"] or 0.0) > 0.4:
                    break
                await anyio.sleep(0.1)
            page = (await client.get("/metrics")).text
        async with agent() as client:
            unwatched = (await client.get("/v1/snapshot", params={"pid": pids[0]})).json()["ranks"][0]
    assert (watched["idle_for_seconds"] > 0.4, unwatched["idle_for_seconds"]) == (True, None)
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert samples["unhang_ranks", (("job", JOB),)] == 2
    assert samples["unhang_agent_snapshots_total", ()] >= 2
    assert samples["unhang_agent_problems_total", (("status", "404"),)] == 1
    assert samples["unhang_agent_source_seconds_count", (("source", "stacks"),)] >= 2
    assert samples["unhang_agent_source_seconds_sum", (("source", "recorder"),)] > 0
    assert samples["unhang_agent_source_missing_total", (("reason", "not_enabled"), ("source", "recorder"))] >= 2
    assert ("unhang_rank_idle_seconds", (("job", JOB), ("rank", "0"))) in samples
    assert samples["unhang_agent_abandoned_tasks", ()] == 0


async def test_agent_answers_without_its_lifespan() -> None:
    """Then it keeps no beat, and leaves no thread behind: so a command line can mount it for one question."""
    app = create_app(AgentSettings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent") as client:
        assert (await client.get("/v1/ranks")).status_code == 200


async def test_audit_log_has_a_line_for_each_inspection(tmp_path: Path) -> None:
    """Who asked, who was looked at, how deep, and how long it took."""
    audit = tmp_path / "audit.jsonl"
    with job(1) as (pid,):
        async with agent(audit_log=audit) as client:
            await client.get("/v1/ranks")
            await client.get("/v1/snapshot", params={"job": JOB})
            await client.get(f"/v1/ranks/{pid}/fds")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["action"], line["jobs"], line["pids"], line["stacks"]) for line in lines] == [
        ("snapshot", [JOB], [pid], "plain"),
        ("fds", [JOB], [pid], "none"),
    ]
    assert {"at", "client", "took_seconds"} <= lines[0].keys()
    assert "recorder not_enabled" in lines[0]["result"]
    assert audit.stat().st_mode & 0o007 == 0


def test_audit_log_that_cannot_be_written(tmp_path: Path) -> None:
    """It is told at the start, not at the first inspection."""
    with pytest.raises(InvalidSettings, match="audit log"):
        create_app(AgentSettings(audit_log=tmp_path / "none" / "audit"))
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidSettings, match="audit log"):
        create_app(AgentSettings(audit_log=tmp_path / "link"))


def test_settings_come_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a prefix; a flag goes before them; what makes no sense is refused."""
    monkeypatch.setenv("UNHANG_AGENT_LISTEN", "127.0.0.1:9")
    monkeypatch.setenv("UNHANG_AGENT_ONLY_RANKS", "3,1")
    settings = AgentSettings(beat_seconds=1)
    assert (settings.listen, settings.only_ranks, settings.beat_seconds) == ("127.0.0.1:9", "1,3", 1)
    assert AgentSettings(listen="127.0.0.1:8").listen == "127.0.0.1:8"
    assert AgentSettings().host == socket.gethostname()
    for wrong in ({"only_ranks": "x"}, {"look_timeout_seconds": 0}, {"colour": "red"}):
        with pytest.raises(ValidationError):
            AgentSettings(**wrong)


def test_agent_that_must_not_begin(tmp_path: Path) -> None:
    """Beyond loopback without a token, or where somebody else listens."""
    with pytest.raises(InvalidSettings, match="without authentication"):
        serve(AgentSettings(listen="0.0.0.0:0"))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InvalidSettings, match="cannot listen"):
        serve(AgentSettings(listen=f"127.0.0.1:{taken.getsockname()[1]}"))


def test_service_serves_and_ends_with_a_signal() -> None:
    """As systemd runs it."""
    port = free_port()
    program = (
        "from agent.serve import serve; from agent.settings import AgentSettings; import sys\n"
        f"serve(AgentSettings(listen='127.0.0.1:{port}'))\n"
    )
    process = subprocess.Popen((sys.executable, "-c", program), stderr=subprocess.PIPE, env={**os.environ})
    try:
        until_it_answers(f"http://127.0.0.1:{port}/healthz", process)
        process.terminate()
        _, complaint = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, complaint) == (0, b"") or process.returncode == -15
