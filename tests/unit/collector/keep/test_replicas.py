"""Collectors that share a store: one of them looks at a job at a time, all tell the same, and each may die."""

import asyncio
import os
import resource
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from collector.app import create_app
from collector.settings import CollectorSettings
from tests.build.agents.fake_agents import JOB, FakeAgent, held, mounts, two_nodes
from tests.build.agents.served_agents import served, whole_job
from tests.build.processes.nursery import Nursery
from tests.build.services.postgres import Postgres

pytestmark = pytest.mark.slow

LEASE_SECONDS = 1.0
"""Where a replica is killed or stopped. Where none is, a lease is longer than any pause of the machine."""


@asynccontextmanager
async def replica(place: str, *agents: FakeAgent, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of one collector of several."""
    fields = {"agents": "node[1-2]", "store": place, "interval_seconds": 0.1, "lease_seconds": 60, **more}
    app = create_app(CollectorSettings.model_validate(fields), mounts=mounts(*agents))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://collector", timeout=60) as client,
    ):
        yield client


async def ask_for_diagnosis(client: httpx.AsyncClient, job: str = JOB, wait: float = 30.0) -> httpx.Response:
    """Ask for a diagnosis."""
    return await client.post(f"/v1/jobs/{job}/diagnoses", params={"wait": wait})


async def test_replicas_share_one_run(place: str) -> None:
    """Four who ask at two replicas at once get one diagnosis, the agents are looked at once, and both tell of it."""
    nodes = two_nodes()
    go_on = held(*nodes)
    async with replica(place, *nodes) as one, replica(place, *nodes) as two:
        asking = [asyncio.create_task(ask_for_diagnosis(client)) for client in (one, two, one, two)]
        assert [(await ask_for_diagnosis(client, wait=0)).status_code for client in (one, two)] == [202, 202]
        go_on.set()
        answers = await asyncio.gather(*asking)
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["id"] for answer in answers}) == 1
        for client in (one, two):
            (listed,) = (await client.get("/v1/diagnoses")).json()["diagnoses"]
            assert (await client.get(answers[0].headers["location"])).json() == answers[0].json()
    assert listed["id"] == answers[0].json()["id"]
    assert [asked["stacks"] for asked in nodes[0].asked].count("plain") == 2


async def test_run_is_told_of_at_every_replica(place: str) -> None:
    """The location of a 202 holds everywhere, while the run is under way and once it is over."""
    nodes = two_nodes()
    go_on = held(*nodes)
    async with replica(place, *nodes) as one, replica(place, *nodes) as two:
        begun = await ask_for_diagnosis(one, wait=0)
        location = begun.headers["location"]
        pending = await two.get(location)
        assert (pending.status_code, pending.json()["job"]) == (202, JOB)
        assert pending.json()["started_at"] == begun.json()["started_at"]
        joined = await ask_for_diagnosis(two, wait=0)
        assert joined.headers["location"] == location
        waiting = asyncio.create_task(ask_for_diagnosis(two))
        assert (await ask_for_diagnosis(two, wait=0)).headers["location"] == location
        go_on.set()
        assert (await waiting).headers["location"] == location
        assert (await two.get(location)).json()["verdict"] == "hung"


async def test_failure_is_the_same_everywhere(place: str) -> None:
    """Whoever joined a run that fails is told what the one who began it is told, and so is who asks later."""
    slow = FakeAgent("node1", [])
    async with replica(place, slow, agents="node1") as one, replica(place, slow, agents="node1") as two:
        answers = await asyncio.gather(ask_for_diagnosis(one, "nix"), ask_for_diagnosis(two, "nix"))
        assert {answer.status_code for answer in answers} == {404}
        begun = await ask_for_diagnosis(one, "nix", wait=0)
        await ask_for_diagnosis(one, "nix")
        later = await two.get(begun.headers["location"])
    assert (later.status_code, later.json()["detail"]) == (404, "no agent knows job 'nix'")


async def test_who_waits_at_another_replica_gets_an_answer_when_the_first_stops(place: str) -> None:
    """A replica that is told to end leaves its job at once to the one where somebody waits."""
    nodes = two_nodes()
    async with replica(place, *nodes) as two:
        async with replica(place, *nodes, interval_seconds=15) as one:
            begun = await ask_for_diagnosis(one, wait=0)
            waiting = asyncio.create_task(ask_for_diagnosis(two))
            await asyncio.sleep(0.3)
        answer = await waiting
        old = await two.get(begun.headers["location"])
    assert answer.json()["verdict"] == "hung"
    assert answer.json()["id"] != begun.json()["id"]
    assert (old.status_code, old.headers["content-type"]) == (410, "application/problem+json")
    assert "interrupted" in old.json()["detail"]


def in_background(question: Callable[[], httpx.Response]) -> Callable[[], httpx.Response]:
    """Ask in a thread; call what is returned for the answer."""
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(question()))
    thread.start()

    def answer() -> httpx.Response:
        thread.join(60)
        return answers[0]

    return answer


def post(url: str, *, wait: float = 30.0) -> httpx.Response:
    """Ask a real collector."""
    return httpx.post(
        f"{url}/v1/jobs/{JOB}/diagnoses", params={"wait": wait}, timeout=60, trust_env=False, verify=False
    )


def test_replica_killed_in_mid_sweep(nursery: Nursery, postgres: Postgres) -> None:
    """Two real collectors, one PostgreSQL, SIGKILL: who waits at the other one gets the verdict, seconds later."""
    flags = {"store": postgres.new_database(), "lease_seconds": LEASE_SECONDS}
    agent = whole_job()
    with (
        served(agent) as url,
        nursery.running(agents=url, interval_seconds=60, deadline_seconds=90, **flags) as (one, pid),
        nursery.running(agents=url, interval_seconds=0.5, **flags) as (two, _),
    ):
        begun = post(one, wait=0)
        answer = in_background(lambda: post(two))
        time.sleep(0.4)
        nursery.end(pid, signal.SIGKILL)
        killed_at = time.monotonic()
        assert answer().json()["verdict"] == "hung"
        assert time.monotonic() - killed_at < 30
        old = httpx.get(f"{two}{begun.headers['location']}", trust_env=False, verify=False)
        assert (old.status_code, answer().json()["id"] != begun.json()["id"]) == (410, True)


def test_replica_that_was_frozen_follows_the_one_that_took_over(nursery: Nursery, postgres: Postgres) -> None:
    """Stopped for longer than its lease and woken while another one is at work: the callers of both get that one's."""
    flags = {"store": postgres.new_database(), "lease_seconds": LEASE_SECONDS}
    with (
        served(whole_job()) as url,
        nursery.running(agents=url, interval_seconds=6, **flags) as (one, pid),
        nursery.running(agents=url, interval_seconds=3, **flags) as (two, _),
    ):
        begun = post(one, wait=0)
        early = in_background(lambda: post(one))
        time.sleep(0.3)
        os.kill(pid, signal.SIGSTOP)
        late = in_background(lambda: post(two))
        time.sleep(2 * LEASE_SECONDS)
        os.kill(pid, signal.SIGCONT)
        assert early().json()["id"] == late().json()["id"] != begun.json()["id"]
        listed = httpx.get(f"{one}/v1/diagnoses", trust_env=False, verify=False).json()["diagnoses"]
        assert len(listed) == 1


def test_store_that_fails_costs_the_keeping_and_not_the_verdict(nursery: Nursery, place: str, request: Any) -> None:
    """A disk that is full, a database that refuses: the verdict comes with a note, `/healthz` tells, and it heals."""
    with (
        served(whole_job()) as url,
        nursery.running(agents=url, store=place, interval_seconds=0, lease_seconds=LEASE_SECONDS) as (one, pid),
    ):
        kept = post(one)
        break_store(request, place, pid, broken=True)
        began = time.monotonic()
        unkept = post(one)
        took_seconds = time.monotonic() - began
        ill = httpx.get(f"{one}/healthz", trust_env=False, verify=False)
        again = httpx.get(f"{one}{unkept.headers['location']}", trust_env=False, verify=False)
        metrics = httpx.get(f"{one}/metrics", trust_env=False, verify=False).text
        break_store(request, place, pid, broken=False)
        healed = post(one)
        well = httpx.get(f"{one}/healthz", trust_env=False, verify=False)
        listed = httpx.get(f"{one}/v1/diagnoses", trust_env=False, verify=False).json()["diagnoses"]
    assert unkept.json()["verdict"] == "hung"
    assert "not kept" in unkept.json()["next_steps"][-1]["text"]
    assert took_seconds < 30
    assert (ill.status_code, ill.json()["status"], ill.json()["store"]["source"]) == (200, "degraded", "store")
    assert again.json() == unkept.json()
    assert "unhang_collector_diagnoses_not_kept_total 1.0" in metrics
    assert well.json()["status"] == "ok"
    assert [each["id"] for each in listed] == [healed.json()["id"], kept.json()["id"]]


def break_store(request: Any, place: str, pid: int, *, broken: bool) -> None:
    """Let the collector's files grow no more, or its database take no connections; or let them again."""
    if place.startswith("sqlite"):
        most = 1 if broken else resource.RLIM_INFINITY
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    else:
        request.getfixturevalue("postgres").allow(place, connections=not broken)


def test_database_that_answers_nothing(nursery: Nursery, postgres: Postgres) -> None:
    """Frozen, with all connections open: the verdict comes, the probe is answered, and the collector ends when told."""
    flags = {"store": postgres.new_database(), "interval_seconds": 0, "lease_seconds": LEASE_SECONDS}
    with served(whole_job()) as url, nursery.running(agents=url, **flags) as (one, pid):
        assert post(one).status_code == 200
        with postgres.frozen():
            began = time.monotonic()
            unkept = post(one)
            took_seconds = time.monotonic() - began
            ill = httpx.get(f"{one}/healthz", trust_env=False, verify=False, timeout=20)
            began = time.monotonic()
            nursery.end(pid, signal.SIGTERM)
            ended_seconds = time.monotonic() - began
    assert unkept.json()["verdict"] == "hung"
    assert "not kept" in unkept.json()["next_steps"][-1]["text"]
    assert took_seconds < 30
    assert ended_seconds < 30
    assert ill.json()["status"] == "degraded"


async def test_questions_to_a_broken_store(postgres: Postgres) -> None:
    """What can only be answered from the store is a 503 with advice, and without the password."""
    place = postgres.new_database().replace("unhang@", "unhang:s3cret@")
    async with replica(place, *two_nodes()) as client:
        postgres.allow(place, connections=False)
        answers = [
            await client.get(path) for path in ("/v1/diagnoses", "/v1/diagnoses/nix", "/v1/diagnoses/nix/bundle")
        ]
        assert (await client.get("/metrics")).status_code == 200
        postgres.allow(place, connections=True)
        assert (await client.get("/v1/diagnoses")).status_code == 200
    assert {answer.status_code for answer in answers} == {503}
    assert "database" in answers[0].json()["advice"]
    assert not any("s3cret" in answer.text for answer in answers)
