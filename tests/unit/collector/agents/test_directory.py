"""All ways together, in a running collector: what its API says, and that no source holds anything up."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.agents.agent_source import Sighting, SourceReading, parse_one
from collector.agents.directory import Directory
from collector.agents.static_list import StaticInventory
from collector.app import create_app, get_service
from collector.service import make_inventory
from collector.settings import CollectorSettings
from shared.errors import InvalidSettings, Unreachable
from shared.missing import Reason
from tests.build.agents.fake_agents import JOB, FakeAgent, case_ranks, mounts, two_nodes
from tests.build.services.discovery_servers import http_server
from tests.build.services.stores import empty_store


@asynccontextmanager
async def collector(directory: Path, *agents: FakeAgent, **more: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Any]]:
    """A running collector, its client and its service."""
    fields = {"store": empty_store(directory), "interval_seconds": 0.01, "discovery_seconds": 0.05, **more}
    app = create_app(CollectorSettings.model_validate(fields), mounts=mounts(*agents))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector") as client,
    ):
        yield client, get_service(app)


async def test_agents_say_from_whom_they_are_known(tmp_path: Path) -> None:
    """A list, a file and a server name two nodes between them; each is asked once."""
    groups = [{"targets": ["node2:8471"], "labels": {"rack": "a1"}}]
    (tmp_path / "agents.json").write_text(json.dumps([{"targets": ["node1"]}, *groups]))
    with http_server(lambda path, headers: (200, json.dumps(groups).encode())) as base:
        ways = {"agents": "node1", "file_sd": f"{tmp_path}/agents.json", "http_sd": base}
        async with collector(tmp_path, *two_nodes(), **ways) as (client, _):
            answer = (await client.get("/v1/agents")).json()
            metrics = (await client.get("/metrics")).text
    file_sd, http_sd = f"file_sd {tmp_path}/agents.json", f"http_sd {base}"
    assert [(a["host"], a["learnt_from"], a["labels"], a["answers"]) for a in answer["agents"]] == [
        ("node1", ["agents", file_sd], {}, True),
        ("node2", [file_sd, http_sd], {"rack": "a1"}, True),
    ]
    assert f'unhang_collector_source_up{{source="{file_sd}"}} 1.0' in metrics
    assert f'unhang_collector_source_agents{{source="{file_sd}"}} 2.0' in metrics


async def test_broken_source_is_told_and_its_agents_stay(tmp_path: Path) -> None:
    """In /healthz and a metric, until it is mended; meanwhile jobs are diagnosed."""
    file = tmp_path / "agents.json"
    file.write_text('[{"targets": ["node1", "node2"]}]')
    async with collector(tmp_path, *two_nodes(), file_sd=str(file)) as (client, service):
        file.write_text("[{")
        await until(lambda: service.inventory.trouble is not None)
        health = (await client.get("/healthz")).json()
        assert (health["status"], health["agents"], health["trouble"]["reason"]) == ("ok", 2, "unreadable")
        assert f'source_up{{source="file_sd {file}"}} 0.0' in (await client.get("/metrics")).text
        response = await client.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 30})
        assert response.json()["verdict"] == "hung"
        file.write_text('[{"targets": ["node1"]}]')
        await until(lambda: len(service.inventory.addresses()) == 1)
        assert (await client.get("/healthz")).json()["troubles"] == []


async def until(holds: Any) -> None:
    """Wait for a source to be asked again."""
    for _ in range(3_000):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came to hold")


async def test_source_that_hangs_holds_nothing_up(tmp_path: Path) -> None:
    """The collector starts, and answers about the agents that it knows otherwise."""
    released = threading.Event()
    with http_server(lambda path, headers: (released.wait(60), (200, b"[]"))[1]) as base:
        began = time.monotonic()
        ways = {"agents": "node[1-2]", "http_sd": base, "discovery_deadline_seconds": 0.3}
        async with collector(tmp_path, *two_nodes(), **ways) as (client, _):
            response = await client.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 30})
            health = (await client.get("/healthz")).json()
        assert time.monotonic() - began < 60
        released.set()
    assert response.json()["verdict"] == "hung"
    assert health["trouble"]["reason"] == "timed_out"


async def test_agent_registers_and_is_lost_with_its_ranks(tmp_path: Path) -> None:
    """It is asked where it says; when it falls silent, its ranks are told as out of reach with their node."""
    one, two = two_nodes()
    async with collector(tmp_path, one, two, agents="node1", registration_seconds=0.3) as (client, _):
        put = await client.put("/v1/agents/node2", json={"url": "http://node2:8471"})
        assert put.json() == {"host": "node2", "url": "http://node2:8471", "lease_seconds": 0.3, "digest_seconds": 30.0}
        await client.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 30})
        two.app.router.routes.clear()
        await asyncio.sleep(0.4)
        states = (await client.get("/v1/agents")).json()["agents"]
        response = await client.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 30})
        assert "unhang_collector_agents_lost 1.0" in (await client.get("/metrics")).text
    assert [(s["host"], s["learnt_from"], s["lost_at"] is None, s["answers"]) for s in states] == [
        ("node1", ["agents"], True, True),
        ("node2", ["registered"], False, False),
    ]
    gaps = [(gap["host"], gap["ranks"]) for gap in response.json()["coverage"]["missing"]]
    assert ("node2", "2-3") in gaps


async def test_agent_without_a_url_is_where_it_asks_from(tmp_path: Path) -> None:
    """The address of the connection, and the port that it says."""
    async with collector(tmp_path, registration_seconds=30) as (client, _):
        put = await client.put("/v1/agents/Node9", json={"port": 9000, "scheme": "https"})
    assert put.json()["url"] == "https://127.0.0.1:9000"
    assert put.json()["host"] == "node9"


@pytest.mark.parametrize(
    ("host", "body"),
    [
        ("node1", {"url": "file:///etc/passwd"}),
        ("node1", {"url": "http://a,b"}),
        ("node1", {"url": "http://node[1-9]:8471"}),
        ("node1", {"url": "http://user:pass@node1:8471"}),
        ("node1", {"port": 0}),
        ("node%20x", {}),
        ("node[1-3]", {}),
        ("node1:80", {}),
        ("..", {"url": "http://n" + "x" * 400}),
    ],
)
async def test_registration_that_makes_no_sense_is_refused(tmp_path: Path, host: str, body: dict[str, Any]) -> None:
    """And nothing is kept of it."""
    async with collector(tmp_path, registration_seconds=30) as (client, service):
        put = await client.put(f"/v1/agents/{host}", json=body)
        assert 400 <= put.status_code < 500
        assert service.inventory.agents() == ()


async def test_only_those_register_who_may(tmp_path: Path) -> None:
    """Not at all unless a lease is set, and then with a token of the agents', which other clients do not have."""
    async with collector(tmp_path) as (client, _):
        assert (await client.put("/v1/agents/node1", json={})).status_code == 403
    for name, text in (("all", "client\nagent\n"), ("agents", "agent\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    ways = {"token_file": tmp_path / "all", "registration_token_file": tmp_path / "agents", "registration_seconds": 30}
    async with collector(tmp_path, **ways) as (client, _):
        answers = [
            (await client.put("/v1/agents/n", json={}, headers={"Authorization": f"Bearer {token}"})).status_code
            for token in ("client", "agent", "wrong")
        ]
    assert answers == [401, 200, 401]


async def test_silent_nodes_of_other_jobs_are_not_told(tmp_path: Path) -> None:
    """Slurm knows that the silent node has nothing to do with the job: no rank is thought to be lost with it."""
    job = "slurm-77"
    ranks = [
        rank.model_copy(update={"identity": rank.identity.model_copy(update={"job": job})})
        for rank in case_ranks("missing_rank2", (0, 1, 3), host="node1")
    ]
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\necho '77|node[1,3]'\necho '78|node2'\n")
    squeue.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{squeue.parent}:/usr/bin:/bin")
        async with collector(tmp_path, FakeAgent("node1", ranks), slurm=True) as (client, _):
            diagnosis = (await client.post(f"/v1/jobs/{job}/diagnoses", params={"wait": 30})).json()
            detail = (await client.get(f"/v1/jobs/{job}")).json()
    assert {gap["host"] for gap in diagnosis["coverage"]["missing"] if gap["missing"]["reason"] == "unreachable"} == {
        "node3"
    }
    assert "node2" not in json.dumps(diagnosis)
    assert detail["nodes"] == ["node1", "node3"]


class Mistaken:
    """A source with a mistake of ours in it."""

    name = "mistaken"

    def __init__(self) -> None:
        self.asked = 0

    async def read(self) -> SourceReading:
        """Answer once, then refuse, then break."""
        self.asked += 1
        if self.asked == 1:
            return SourceReading((Sighting(parse_one("node1"), self.name),))
        if self.asked == 2:
            raise Unreachable("not now")
        raise ZeroDivisionError


async def test_mistake_in_a_source_is_told_and_ends_only_that_source() -> None:
    """Its last agents stand, and nobody waits for it."""
    directory = Directory(StaticInventory(["node2"]), [Mistaken()], period_seconds=0.01)
    async with directory.kept_fresh():
        await until(lambda: directory.trouble is not None and "ZeroDivisionError" in directory.trouble.detail)
        assert [address.host for address in directory.addresses()] == ["node2", "node1"]
        assert directory.trouble is not None and directory.trouble.reason is Reason.UNREADABLE


class Waiting:
    """A source that awaits its answer as dnspython does."""

    name = "waiting"

    def __init__(self) -> None:
        self.answers: asyncio.Queue[SourceReading] = asyncio.Queue()
        self.asked = 0

    async def read(self) -> SourceReading:
        """Return the next answer."""
        self.asked += 1
        return await asyncio.wait_for(self.answers.get(), 60)


async def test_source_that_answers_at_the_very_end_keeps_nobody_from_ending() -> None:
    """Python 3.11 forgets a cancellation that comes together with the answer, and the asking goes on."""
    source = Waiting()
    source.answers.put_nowait(SourceReading())
    directory = Directory(StaticInventory([]), [source], period_seconds=0.01)
    async with asyncio.timeout(20):
        async with directory.kept_fresh():
            await until(lambda: source.asked == 2)
            source.answers.put_nowait(SourceReading())
            await asyncio.sleep(0)  # the answer is taken from the queue, and whoever asked has not run yet
    assert "agents from waiting" not in {task.get_name() for task in asyncio.all_tasks()}


@pytest.mark.parametrize(
    "ways", [{"agent_url": "http://node:1"}, {"agent_url": "ftp://{host}"}, {"http_sd": "nix"}, {"kubernetes": "a=b"}]
)
def test_ways_that_cannot_be_gone_are_refused_at_the_start(ways: dict[str, str]) -> None:
    """In one sentence, before anything is served."""
    with pytest.raises(InvalidSettings):
        make_inventory(CollectorSettings.model_validate(ways))
