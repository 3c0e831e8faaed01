"""A collector that sees by itself: agents tell how far their ranks are, and nobody asks. Its time runs quickly here."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector import watcher
from collector.app import create_app, get_service
from collector.settings import CollectorSettings
from shared.wire.snapshot import Exited, Identity
from shared.wire.trace import LastIssued, Marks
from tests.build.agents.fake_agents import JOB, FakeAgent, mounts, two_nodes
from tests.build.services.stores import empty_store

QUICK = 20.0
HEALTH = f"/v1/watched-jobs/{JOB}/health"
SECONDS = 60.0


@asynccontextmanager
async def watching(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, nodes: Sequence[FakeAgent] = (), **more: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a collector of these nodes; none: of two on which rank 2 has not joined."""
    monkeypatch.setattr(watcher, "STEP_SECONDS", 0.02)
    fields = {"agents": "node[1-2]", "store": empty_store(folder), "interval_seconds": 0.01, **more}
    settings = CollectorSettings.model_validate({"registration_seconds": 60.0, **fields})
    app = create_app(settings, mounts=mounts(*(nodes or two_nodes())))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector") as client,
    ):
        seen = get_service(app).watcher
        if seen is not None:
            monkeypatch.setattr(seen, "_clock", lambda: QUICK * time.monotonic())
        yield client


async def tell(client: httpx.AsyncClient, *still: float, host: str = "node1", job: str = JOB) -> dict[str, Any]:
    """Register an agent whose ranks have stood still for so long; none: it has no ranks any more."""
    count = len(still)
    told = {
        "job": job,
        "world_size": 4,
        "ranks": list(range(count)),
        "still": list(still),
        "idle": list(still),
        "pending": [True] * count,
        "group": [0] * count,
        "sequence": [9] * count,
        "groups": ["0"],
    }
    digest = {"jobs": [told] if still else []}
    answer = await client.put(f"/v1/agents/{host}", json={"url": f"http://{host}:8471", "digest": digest})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def until(client: httpx.AsyncClient, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Wait until the incidents are as they should be."""
    deadline = time.monotonic() + SECONDS
    while True:
        incidents: list[dict[str, Any]] = (await client.get("/v1/incidents")).json()["incidents"]
        if holds(incidents):
            return incidents
        assert time.monotonic() < deadline, incidents
        await asyncio.sleep(0.02)


async def test_job_that_hangs_is_an_incident_that_nobody_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the culprit and both diagnoses; acknowledged, kept over a restart, and over when the job is gone."""
    async with watching(tmp_path, monkeypatch) as client:
        assert (await tell(client, 31.0, 31.0, 31.0, 31.0))["digest_seconds"] == 30.0
        (found,) = await until(client, bool)
        assert (found["state"], found["kind"], [c["rank"] for c in found["culprits"]]) == (
            "opened",
            "rank_not_joined",
            [2],
        )
        assert found["job"] == JOB and "has gone on for" in found["trigger"]
        for diagnosis in found["diagnoses"]:
            assert (await client.get(f"/v1/diagnoses/{diagnosis}")).json()["verdict"] == "hung"
        assert len(found["diagnoses"]) == 2
        assert [change["kind"] for change in found["history"]] == ["opened"]
        (watched,) = (await client.get("/v1/watched-jobs")).json()["jobs"]
        assert (watched["job"], watched["state"], watched["incident"]) == (JOB, "hung", found["id"])
        (job,) = (await client.get("/v1/jobs")).json()["jobs"]
        assert (job["state"], job["incident"]) == ("hung", found["id"])
        probed = await client.get(HEALTH)
        assert (probed.status_code, probed.json()["alive"], probed.json()["why"]) == (503, False, found["headline"])
        said = await client.post(f"/v1/incidents/{found['id']}/acknowledge", json={"by": "ann"})
        assert (said.json()["state"], said.json()["history"][-1]["by"]) == ("acknowledged", "ann")
        assert (await client.get("/v1/incidents", params={"state": "opened"})).json()["incidents"] == []
        assert (await client.get("/v1/incidents", params={"host": found["hosts"][0]})).json()["incidents"] != []
    async with watching(tmp_path, monkeypatch) as client:
        await tell(client, 500.0, 500.0, 500.0, 500.0)
        (same,) = await until(client, bool)
        assert (same["id"], same["state"]) == (found["id"], "acknowledged")
        await asyncio.sleep(0.2)
        await tell(client)
        (over,) = await until(client, lambda incidents: incidents[0]["state"] == "resolved")
        assert over["history"][-1]["note"] == "the job has ended"
        assert (await client.get(HEALTH)).json()["alive"] is True
        events = await client.get("/v1/events", params={"after": 0, "seconds": 0})
        kinds = [json.loads(line[6:])["kind"] for line in events.text.splitlines() if '"incident":{' in line]
        assert [kind for kind in kinds if kind != "seen_again"] == ["opened", "acknowledged", "resolved"]
        before = {"Last-Event-ID": str(len(kinds) - 1)}
        later = await client.get("/v1/events", params={"seconds": 0}, headers=before)
        assert later.text.count("event: incident") == 1 and f"id: {len(kinds)}\n" in later.text


async def test_job_that_died_is_dead_wherever_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a verdict of it says, though no digest has told of it; a node that is silent may still run ranks of it."""
    nodes = two_nodes()
    async with watching(tmp_path, monkeypatch, nodes=nodes) as client:
        await tell(client, 0.0, 0.0, 0.0, 0.0)
        for node in nodes:
            of = [rank.identity for rank in node.ranks]
            node.exited = tuple(Exited(pid=rank.pid or 0, identity=rank, signal=9) for rank in of)
            node.ranks = ()
        made = await client.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 60})
        (job,) = (await client.get("/v1/jobs")).json()["jobs"]
        page = (await client.get("/")).text
        assert (made.json()["verdict"], job["state"]) == ("died", "died")
        assert 'class="state died"' in page
    async with watching(tmp_path, monkeypatch, nodes=nodes[:1]) as client:
        await tell(client, 0.0, 0.0, 0.0, 0.0)
        assert (await client.get("/v1/jobs")).json()["jobs"][0]["state"] != "died", "node2 may still run it"


async def test_who_asks_before_agents_have_told_of_the_end_is_told_of_the_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watchdog ends all ranks, and a person asks at once: the rank that made them wait is named, as before."""
    nodes = two_nodes()
    async with watching(tmp_path, monkeypatch, nodes=nodes) as client:
        await tell(client, 31.0, 31.0, 31.0, 31.0)
        await until(client, bool)
        for node in nodes:
            node.exited = tuple(aborted(rank.identity) for rank in node.ranks)
            node.ranks = ()
        answer = (await client.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 30})).json()
        (finding,) = answer["findings"]
        assert (answer["verdict"], finding["kind"]) == ("died", "rank_not_joined")
        assert [each["rank"] for each in finding["culprits"]] == [2]


def aborted(identity: Identity) -> Exited:
    """A rank that its watchdog has ended, in what it had issued long before."""
    last = LastIssued(group="0", op="all_reduce", sequence=9, completed=8, issued_at_ns=10**9, since_ns=10**9)
    marks = Marks(read_at_ns=2 * 10**9, groups=(last,))
    return Exited(pid=identity.pid or 0, identity=identity, signal=6, last_marks=marks)


async def test_false_alarm_is_not_raised_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job still stands there: a person has looked, and that counts."""
    async with watching(tmp_path, monkeypatch) as client:
        await tell(client, 31.0, 31.0, 31.0, 31.0)
        (found,) = await until(client, bool)
        said = await client.post(f"/v1/incidents/{found['id']}/false-alarm")
        assert said.json()["state"] == "false_alarm"
        deadline = time.monotonic() + SECONDS
        while (await client.get("/v1/watched-jobs")).json()["jobs"][0]["incident"] is not None:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        assert [i["state"] for i in (await client.get("/v1/incidents")).json()["incidents"]] == ["false_alarm"]
        assert (await client.post(f"/v1/incidents/{found['id']}/acknowledge")).status_code == 400


async def test_silences_as_alertmanager_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Posted, listed, changed and ended; incidents say which of them hold them back."""
    async with watching(tmp_path, monkeypatch) as client:
        wanted = {
            "matchers": [{"name": "job", "value": ".*", "isRegex": True}],
            "startsAt": "2020-01-01T00:00:00Z",
            "endsAt": "2999-01-01T00:00:00+01:00",
            "createdBy": "ann",
            "comment": "maintenance",
        }
        id, again = [(await client.post("/v1/silences", json=wanted)).json()["silenceID"] for _ in range(2)]
        assert again == id  # a client that asks once more adds none
        (kept,) = (await client.get("/v1/silences")).json()["silences"]
        assert (kept["id"], kept["status"], kept["endsAt"]) == (id, {"state": "active"}, "2998-12-31T23:00:00.000Z")
        await tell(client, 31.0, 31.0, 31.0, 31.0)
        (found,) = await until(client, bool)
        assert found["silenced_by"] == [id]
        changed = {**wanted, "id": id, "matchers": [{"name": "job", "value": "other"}]}
        assert (await client.post("/v1/silences", json=changed)).json()["silenceID"] == id
        assert (await client.get(f"/v1/incidents/{found['id']}")).json()["silenced_by"] == []
        assert (await client.delete(f"/v1/silences/{id}")).json()["status"] == {"state": "expired"}
        assert (await client.get(f"/v1/silences/{id}")).json()["status"] == {"state": "expired"}
        for wrong in (
            {"endsAt": "2019-01-01T00:00:00Z"},
            {"startsAt": "soon"},
            {"startsAt": "2020-01-01T00:00:00"},
            {"matchers": [{"name": "job", "value": "(a+)+", "isRegex": True}]},
            {"matchers": [{"name": "hosts", "value": "node7"}]},  # incidents have no such label: it would never match
        ):
            assert (await client.post("/v1/silences", json={**wanted, **wrong})).status_code == 400
        assert (await client.post("/v1/silences", json={**wanted, "id": "none"})).status_code == 404
        assert (await client.delete("/v1/silences/none")).status_code == 404


async def test_nothing_is_watched_where_that_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents are told so, and a digest that comes nevertheless is left alone."""
    async with watching(tmp_path, monkeypatch, detect=False) as client:
        assert (await tell(client, 500.0, 500.0))["digest_seconds"] is None
        assert (await client.get("/v1/watched-jobs")).json() == {"jobs": [], "is_watching": False}
        probed = await client.get(HEALTH)
        assert (probed.status_code, probed.json()["alive"], probed.json()["state"]) == (200, True, None)


async def test_digest_that_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of unequal length, groups that are not there, numbers without end."""
    async with watching(tmp_path, monkeypatch) as client:
        for wrong in (
            {"job": "j", "ranks": [0]},
            {"job": "j", "ranks": [0], "still": [1], "idle": [1], "pending": [True], "group": [5], "sequence": [1]},
            {"job": "j" * 300},
            {"job": "j", "ranks": list(range(300))},
            {"job": "j", "timeout_seconds": 1e300},
        ):
            body = {"url": "http://node1:8471", "digest": {"jobs": [wrong]}}
            assert (await client.put("/v1/agents/node1", json=body)).status_code in (400, 422)
        many = {"url": "http://node1:8471", "digest": {"jobs": [{"job": f"j{n}"} for n in range(33)]}}
        assert (await client.put("/v1/agents/node1", json=many)).status_code in (400, 422)
