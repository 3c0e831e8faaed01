"""`unhang mcp` as a client starts it: the MCP SDK's own, on standard input and output."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.app import create_app
from collector.settings import CollectorSettings
from shared.answer.diagnosis import Diagnosis
from tests.build.agents.fake_agents import JOB
from tests.build.agents.served_agents import served, whole_job
from tests.build.processes.commands import Job, environment, started, unhang
from tests.build.services.mcp_clients import over_stdio, said
from tests.build.services.services import Service, running

pytestmark = [pytest.mark.slow]

SECONDS = 120.0

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A collector of one node on which rank 2 has not joined. It asks for a token."""
    folder = tmp_path_factory.mktemp("collector")
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text("right\n", encoding="ascii")
    with served(whole_job()) as url:
        store, audit = str(folder / "store.sqlite3"), folder / "audit.jsonl"
        settings = CollectorSettings(agents=url, store=store, audit_log=audit, token_file=tokens, interval_seconds=0.01)
        app = create_app(settings)
        with running(app, settings, app.state.audit) as service:
            yield service


@pytest.mark.ptrace
async def test_this_machine(job: Job) -> None:
    """Without a service: real processes are listed, diagnosed and shown, and what was diagnosed is kept meanwhile."""
    async with over_stdio(env=job.env, executed=True) as client:
        (found,) = (await said(client, "list_jobs"))["untrusted"]["jobs"]
        made = await said(client, "diagnose_job", job=found["name"])
        again = await said(client, "get_diagnosis", id=made["id"])
        stacks = await said(client, "show_stacks", job=found["name"])
        logs = await said(client, "show_logs", job=found["name"], diagnosis=made["id"])
    assert found["name"] == job.name.replace("\x1b", "")
    assert (made["status"], again["untrusted"]) == ("ready", made["untrusted"])
    diagnosis = Diagnosis.model_validate(made["untrusted"])
    alone = Diagnosis.model_validate_json(unhang("diagnose", "--json", env=job.env).out)
    assert (diagnosis.verdict, diagnosis.coverage) == (alone.verdict, alone.coverage)
    frames = {frame["function"] for one in stacks["untrusted"]["classes"] for frame in one["frames"]}
    assert "wait_for_quota" in frames
    assert "RuntimeError: CUDA error" in {line["text"] for line in logs["untrusted"]["lines"]}


async def test_collector(service: Service, tmp_path: Path) -> None:
    """With `--collector`, in the older protocol: its verdict; a wrong token is a tool error that says what to do."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("right\n", encoding="ascii")
    asked = ("--collector", service.plain_url(""), "--token-file", str(token))
    async with over_stdio(*asked, mode="legacy") as client:
        made = await said(client, "diagnose_job", job=JOB)
    assert made["untrusted"]["findings"][0]["culprits"][0]["rank"] == 2
    token.write_text("wrong\n", encoding="ascii")
    async with over_stdio(*asked, mode="legacy") as client:
        refused = await client.call_tool("list_jobs", {})
    assert refused.is_error
    assert "token" in json.loads(refused.content[0].text)["untrusted"]["error"]


async def test_collector_that_is_not_there() -> None:
    """The tools say so; the client lives on."""
    async with over_stdio("--collector", "http://127.0.0.1:9") as client:
        called = await client.call_tool("list_jobs", {})
    assert called.is_error
    assert "unhang collector" in json.loads(called.content[0].text)["untrusted"]["advice"]


@pytest.mark.ptrace
@pytest.mark.parametrize("by", [None, signal.SIGTERM])
def test_client_is_gone(job: Job, by: signal.Signals | None) -> None:
    """In the midst of a diagnosis its input ends, or it sends the signal that clients end servers with."""
    with started("mcp", env=job.env, executed=by is not None) as server:
        arguments = {"name": "diagnose_job", "arguments": {"job": job.name}, "_meta": {"progressToken": 1}}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": arguments}
        print(json.dumps(HELLO), json.dumps(call), sep="\n", file=server.stdin, flush=True)
        assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "unhang"
        assert json.loads(server.stdout.readline())["method"] == "notifications/progress"
        if by is None:
            server.stdin.close()
        else:
            server.send_signal(by)
        assert server.wait(SECONDS) == (0 if by is None else 128 + by)
        assert server.stderr.read().strip() == ""


def test_client_that_does_not_read(service: Service) -> None:
    """Its output is closed: there is nothing left to do."""
    with started("mcp", "--collector", service.plain_url("")) as server:
        server.stdout.close()
        print(json.dumps(HELLO), file=server.stdin, flush=True)
        assert server.wait(SECONDS) == 0
        assert server.stderr.read() == ""


def test_without_the_package() -> None:
    """It is an extra: without it, the command says what to install."""
    start = "import sys; sys.modules['mcp'] = None; from cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, "mcp"], env=environment(), capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["unhang: the package `mcp` is not installed", "  pip install 'unhang[mcp]'"]
