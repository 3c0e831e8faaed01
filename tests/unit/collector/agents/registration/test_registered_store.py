"""Registrations that replicas share and a restart remembers, and that no store holds up."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from collector.agents.agent_source import parse_one
from collector.agents.registration.registered import ASKED_SECONDS, Leases
from collector.agents.registration.registered_store import LeaseSharing
from collector.keep.database import Database
from collector.keep.registrations import Registrations
from collector.keep.url import parse_store_place
from tests.build.agents.fake_agents import JOB, FakeAgent, two_nodes
from tests.build.processes.nursery import Nursery
from tests.build.processes.waiting import until
from tests.build.services.postgres import Postgres
from tests.unit.collector.agents.registration.test_registered import Clock
from tests.unit.collector.agents.test_directory import collector
from tests.unit.collector.conftest import Opener

LEASE_SECONDS = 60.0
AT_NODE2 = {"url": "http://node2:8471"}


@asynccontextmanager
async def replica(place: str, *agents: FakeAgent, **more: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Any]]:
    """One collector of several, its client and its service; leases are of a second."""
    async with collector(Path("."), *agents, store=place, **{"registration_seconds": 1.0, **more}) as opened:
        yield opened


def sharing(opened: Opener, clock: Clock, wall: Clock | None = None) -> tuple[Leases, LeaseSharing]:
    """The leases of a replica of its own on this store."""
    leases = Leases(LEASE_SECONDS, clock=clock, wall_clock=wall or clock)
    return leases, LeaseSharing(leases, opened().registrations, deadline_seconds=20)


def hosts(leases: Leases) -> dict[str, bool]:
    """Whether each agent is lost."""
    return {sighting.address.host: sighting.lost_at is not None for sighting in leases.sightings()}


async def in_step(*replicas: LeaseSharing) -> None:
    """All write what they have heard, and read what the others have."""
    for each in (*replicas, *replicas):
        await each.exchange()


async def test_agent_registered_at_one_replica_is_asked_by_the_other(place: str) -> None:
    """And while nobody holds it any more, both tell that it is lost, since the same moment."""
    one, two = two_nodes()
    async with (
        replica(place, one, two, agents="node1") as (here, at_first),
        replica(place, one, two, agents="node1") as (there, service),
    ):
        assert (await here.put("/v1/agents/node2", json=AT_NODE2)).status_code == 200
        await until(lambda: len(service.inventory.addresses()) == 2)
        answer = await there.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 30})
        assert answer.json()["coverage"]["answered"] == 4
        await until(lambda: service.inventory.leases.lost == at_first.inventory.leases.lost == 1)
        states = [(await client.get("/v1/agents")).json()["agents"][1] for client in (here, there)]
    assert [(state["host"], state["learnt_from"]) for state in states] == [("node2", ["registered"])] * 2
    assert abs(states[0]["lost_at"] - states[1]["lost_at"]) < 2.0


def test_killed_collector_remembers_who_had_registered(nursery: Nursery, place: str) -> None:
    """After a SIGKILL, with no agent coming back: they are there as soon as the new one answers."""
    flags = {"store": place, "registration_seconds": 3.0}
    with nursery.running(**flags) as (url, pid):
        with httpx.Client(base_url=url, verify=False, trust_env=False) as client:
            for number in range(20):
                client.put(f"/v1/agents/node{number}", json={"port": 9000 + number})
        first = agents_known(url, lambda agents: agents == 20)
        end = time.monotonic() + 60
        while (written := agents_kept(place)) < 20 and time.monotonic() < end:
            time.sleep(0.05)
        nursery.end(pid, signal.SIGKILL)
    with nursery.running(**flags) as (url, _):
        again = httpx.get(f"{url}/healthz", trust_env=False, verify=False).json()["agents"]
    assert (first, written, again) == (20, 20, 20)


def agents_kept(place: str) -> int:
    """Ask the store itself."""
    database = Database(parse_store_place(place))
    try:
        return len(Registrations(database).exchange([]))
    finally:
        database.close()


def agents_known(url: str, holds: Callable[[int], bool]) -> int:
    """Ask until the number of agents is as it should be."""
    for _ in range(1000):
        known: int = httpx.get(f"{url}/healthz", verify=False, trust_env=False).json()["agents"]
        if holds(known):
            return known
        time.sleep(0.05)
    raise AssertionError("it never came to hold")


async def test_after_a_restart_nobody_is_lost_before_a_lease_has_passed(opened: Opener) -> None:
    """There was nobody to register with meanwhile. Then the moment told is that of the last word."""
    clock = Clock()
    leases, share = sharing(opened, clock)
    leases.renew(parse_one("node1"))
    await share.exchange()
    clock.now += 500
    restarted, share = sharing(opened, clock)
    await share.exchange()
    assert hosts(restarted) == {"node1": False}
    clock.now += LEASE_SECONDS + 1
    await share.exchange()
    assert hosts(restarted) == {"node1": True}


async def test_silence_is_counted_from_the_last_word_at_any_replica(opened: Opener) -> None:
    """An agent that goes on registering elsewhere is not lost here, where it came once."""
    clock = Clock()
    one, here = sharing(opened, clock)
    two, there = sharing(opened, clock)
    one.renew(parse_one("node1"))
    await in_step(here, there)
    for _ in range(5):
        clock.now += LEASE_SECONDS / 2
        two.renew(parse_one("node1"))
        await in_step(here, there)
    assert hosts(one) == hosts(two) == {"node1": False}
    clock.now += LEASE_SECONDS + 1
    await in_step(here, there)
    assert hosts(two) == {"node1": True}


async def test_what_is_heard_here_stands_before_what_others_hear(opened: Opener) -> None:
    """An agent that another replica sees at another address is asked where we see it."""
    clock = Clock()
    one, here = sharing(opened, clock)
    two, there = sharing(opened, clock)
    ours, theirs = (parse_one(f"http://192.0.2.{n}:8471").model_copy(update={"host": "node1"}) for n in (1, 2))
    one.renew(ours)
    two.renew(theirs)
    await in_step(here, there)
    assert [s.address.url for s in one.sightings()] == [ours.url]
    assert [s.address.url for s in two.sightings()] == [theirs.url]
    assert one.conflicts() == two.conflicts() == ()


async def test_nobody_is_lost_because_the_store_fails(opened: Opener) -> None:
    """Who registers elsewhere may still do so; who registers here and falls silent is lost all the same."""
    clock = Clock()
    one, here = sharing(opened, clock)
    two, there = sharing(opened, clock)
    one.renew(parse_one("node1"))
    two.renew(parse_one("node2"))
    await in_step(here, there)
    here._registrations.exchange = broken  # type: ignore[method-assign]
    clock.now += ASKED_SECONDS
    await here.exchange()
    assert hosts(one) == {"node1": True, "node2": False}
    assert one.trouble is not None and "store fails" in one.trouble.detail


def broken(renewals: object) -> Any:
    """A store that is gone."""
    from collector.keep.database import StoreTrouble

    raise StoreTrouble("gone")


async def seconds_of(what: Awaitable[httpx.Response]) -> tuple[float, httpx.Response]:
    """Wait for an answer, and say for how long."""
    began = time.monotonic()
    answer = await what
    return time.monotonic() - began, answer


async def test_database_that_answers_nothing_holds_up_no_registration(postgres: Postgres) -> None:
    """Frozen with all connections open: agents register at once, those known are kept, and it heals by itself."""
    place = postgres.new_database()
    one, two = two_nodes()
    async with (
        replica(place, one, two, registration_seconds=4.0) as (here, service),
        replica(place, one, two, registration_seconds=4.0) as (there, other),
    ):
        await here.put("/v1/agents/node1", json={"url": "http://node1:8471"})
        await until(lambda: len(other.inventory.addresses()) == 1)
        with postgres.frozen():
            took, put = await seconds_of(here.put("/v1/agents/node2", json=AT_NODE2))
            assert (put.status_code, took < 4.0) == (200, True)
            assert len(service.inventory.addresses()) == 2
            await until(lambda: other.inventory.trouble is not None)
            assert [each.host for each in other.inventory.addresses()] == ["node1"]
            metrics = (await asyncio.wait_for(there.get("/metrics"), 30)).text
            assert 'source_up{source="registered"} 0.0' in metrics
        await until(lambda: len(other.inventory.addresses()) == 2 and other.inventory.trouble is None)


async def test_store_that_refuses_is_told_and_heals(postgres: Postgres) -> None:
    """What was heard meanwhile is written afterwards."""
    place = postgres.new_database()
    async with replica(place) as (here, service), replica(place) as (_, other):
        postgres.allow(place, connections=False)
        await until(lambda: service.inventory.trouble is not None)
        assert (await here.put("/v1/agents/node1", json={})).status_code == 200
        assert (await here.get("/healthz")).json()["agents"] == 1
        postgres.allow(place, connections=True)
        await until(lambda: len(other.inventory.addresses()) == 1 and service.inventory.trouble is None)
