"""The API, end to end in one process: the collector's application asks fake agents."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from collector.app import create_app, get_service
from collector.settings import CollectorSettings
from shared.answer.diagnosis import Diagnosis
from tests.build.agents.fake_agents import JOB, FakeAgent, held, make_rank, mounts, two_nodes
from tests.build.processes.commands import REPOSITORY
from tests.build.services.stores import empty_store


def settings(directory: Path, **more: Any) -> CollectorSettings:
    """Settings that are quick, with a store of their own."""
    fields = {"agents": "node[1-2]", "store": empty_store(directory), "interval_seconds": 0.01, **more}
    return CollectorSettings.model_validate(fields)


@asynccontextmanager
async def client_of(
    chosen: CollectorSettings, *agents: FakeAgent, headers: dict[str, str] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a running collector."""
    app = create_app(chosen, mounts=mounts(*agents))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://collector", headers=headers) as client,
    ):
        yield client


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A collector of two nodes on which rank 2 has not joined."""
    async with client_of(settings(tmp_path), *two_nodes()) as client:
        yield client


async def diagnose(client: httpx.AsyncClient, job: str = JOB) -> Diagnosis:
    """Ask for a diagnosis and wait for it."""
    response = await client.post(f"/v1/jobs/{job}/diagnoses", params={"wait": 30})
    assert response.status_code == 200, response.text
    return Diagnosis.model_validate_json(response.content)


async def test_verdict_for_a_bot(client: httpx.AsyncClient) -> None:
    """One request, one verdict with the culprit; it is kept, and found again under its address."""
    response = await client.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 30})
    answer = response.json()
    assert (answer["verdict"], answer["findings"][0]["culprits"][0]["rank"]) == ("hung", 2)
    again = await client.get(response.headers["location"])
    assert again.json() == answer


async def test_not_waiting_is_told_where_to_ask(tmp_path: Path) -> None:
    """Without `wait`: 202, a location that says how far it is, and in the end the diagnosis."""
    nodes = two_nodes()
    go_on = held(*nodes)
    async with client_of(settings(tmp_path), *nodes) as client:
        response = await client.post(f"/v1/jobs/{JOB}/diagnoses")
        assert response.status_code == 202
        assert response.headers["retry-after"] == "1"
        assert response.json()["status"] == "running"
        location = response.headers["location"]
        assert location == f"/v1/diagnoses/{response.json()['id']}"
        pending = await client.get(location)
        assert (pending.status_code, pending.json()["job"]) == (202, JOB)
        go_on.set()
        ready = await until_ready(client, location)
    assert ready["verdict"] == "hung"


async def until_ready(client: httpx.AsyncClient, location: str) -> dict[str, Any]:
    """Poll as a bot would."""
    for _ in range(1000):
        response = await client.get(location)
        if response.status_code != 202:
            answer: dict[str, Any] = response.json()
            return answer
        await asyncio.sleep(0.05)
    raise AssertionError("it was never ready")


async def test_two_callers_share_one_run(tmp_path: Path) -> None:
    """Three who ask at once about one job get one diagnosis, and the agents are looked at once."""
    nodes = two_nodes()
    async with client_of(settings(tmp_path, interval_seconds=0.2), *nodes) as client:
        answers = await asyncio.gather(*(diagnose(client) for _ in range(3)))
        listed = (await client.get("/v1/diagnoses")).json()["diagnoses"]
    assert len({answer.id for answer in answers}) == 1
    assert len(listed) == 1
    assert [asked["stacks"] for asked in nodes[0].asked].count("plain") == 2


async def test_two_jobs_are_diagnosed_side_by_side(tmp_path: Path) -> None:
    """Different jobs do not wait for each other, nor mix."""
    other = FakeAgent("node2", [make_rank(0, host="node2", job="other")])
    async with client_of(settings(tmp_path), two_nodes()[0], other) as client:
        one, two = await asyncio.gather(diagnose(client), diagnose(client, "other"))
    assert (one.job, two.job) == (JOB, "other")
    assert two.coverage.seen == 1


async def test_caller_that_gives_up_does_not_end_the_run(client: httpx.AsyncClient) -> None:
    """A bot whose wait is over asks again later; the work went on."""
    response = await client.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 0.001})
    if response.status_code == 202:
        assert (await until_ready(client, response.headers["location"]))["verdict"] == "hung"


async def test_options_of_one_diagnosis(tmp_path: Path) -> None:
    """Looks and window can be chosen per request; what is misspelt is refused and named."""
    nodes = two_nodes()
    async with client_of(settings(tmp_path), *nodes) as client:
        await client.post(f"/v1/jobs/{JOB}/diagnoses?wait=30", json={"looks": 1, "window": 5, "native": "never"})
        refused = await client.post(f"/v1/jobs/{JOB}/diagnoses", json={"loks": 1})
    assert [asked["window"] for asked in nodes[0].asked] == [5]
    assert refused.status_code == 422
    assert "loks" in refused.json()["detail"]


async def test_look_that_nobody_comes_back_to_is_not_kept(client: httpx.AsyncClient) -> None:
    """Unless somebody else asks while it is made; for a moment its id is known in any case."""
    path = f"/v1/jobs/{JOB}/diagnoses"
    seen = await client.post(path, params={"wait": 30}, json={"keep": False})
    assert (seen.status_code, seen.json()["action"]["kept"]) == (200, "")
    assert (await client.get(seen.headers["location"])).json() == seen.json()
    assert (await client.get("/v1/diagnoses")).json()["diagnoses"] == []
    watching = client.post(path, params={"wait": 30}, json={"keep": False})
    joined, asked = await asyncio.gather(watching, client.post(path, params={"wait": 30}))
    assert joined.json()["id"] == asked.json()["id"]
    assert [each["id"] for each in (await client.get("/v1/diagnoses")).json()["diagnoses"]] == [asked.json()["id"]]
    assert asked.json()["id"] in asked.json()["action"]["kept"]


async def test_pages(client: httpx.AsyncClient) -> None:
    """`next` leads from page to page, to the end."""
    made = [(await diagnose(client)).id for _ in range(5)]
    seen: list[str] = []
    before = None
    while True:
        params = {"limit": 2} if before is None else {"limit": 2, "before": before}
        page = (await client.get("/v1/diagnoses", params=params)).json()
        seen += [each["id"] for each in page["diagnoses"]]
        before = page["next"]
        if before is None:
            break
    assert seen == made[::-1]


async def test_partial_results(tmp_path: Path) -> None:
    """With one node down, the verdict on the others comes, and every view says who is silent."""
    chosen = settings(tmp_path, agents="node[1-2] http://127.0.0.1:9")
    async with client_of(chosen, *two_nodes()) as client:
        made = await diagnose(client)
        agents = (await client.get("/v1/agents")).json()["agents"]
        jobs = (await client.get("/v1/jobs")).json()
    assert made.findings[0].culprit_ranks == (2,)
    assert [agent["answers"] for agent in agents] == [True, True, False]
    assert "refused" in agents[2]["missing"][0]["detail"]
    assert [each["missing"]["reason"] for each in jobs["unanswered"]] == ["unreachable"]


@pytest.mark.parametrize("job", ["team/run 7", "host:29500", "a/b/c", "run-ü%2F"])
async def test_names_of_jobs_may_hold_anything(tmp_path: Path, job: str) -> None:
    """Colons, slashes, spaces: as they are or percent-encoded, the job is found under its name."""
    node = FakeAgent("node1", [make_rank(0, host="node1", job=job)])
    async with client_of(settings(tmp_path, agents="node1"), node) as client:
        for path in {quote(job, safe=""), quote(job, safe="/:")}:
            assert (await diagnose(client, path)).job == job
            assert (await client.get(f"/v1/jobs/{path}")).json()["job"]["name"] == job
            assert (await client.get(f"/v1/jobs/{path}/sequences")).json()["job"] == job


async def test_problems_have_one_shape(client: httpx.AsyncClient) -> None:
    """Every error is a problem document with a status, a sentence and, where there is any, advice."""
    asked = [
        (await client.post("/v1/jobs/nix/diagnoses?wait=10"), 404, "'nix'"),
        (await client.get("/v1/jobs/nix"), 404, "'nix'"),
        (await client.get("/v1/jobs/nix/stacks"), 404, "'nix'"),
        (await client.get("/v1/diagnoses/nix"), 404, "'nix'"),
        (await client.get("/v1/diagnoses/nix/bundle"), 404, "'nix'"),
        (await client.get(f"/v1/jobs/{JOB}/stacks?diagnosis=nix"), 404, "'nix'"),
        (await client.get("/nowhere"), 404, ""),
        (await client.delete("/v1/jobs"), 405, ""),
        (await client.get("/v1/diagnoses?limit=0"), 422, "limit"),
        (await client.get(f"/v1/jobs/{JOB}/fds?ranks=a-b"), 400, "'a-b'"),
        (await client.get(f"/v1/jobs/{JOB}/stacks?format=svg"), 422, "format"),
        (await client.get("/v1/diagnoses/nix", headers={"Accept": "image/png"}), 406, "text/markdown"),
        (await client.post(f"/v1/jobs/{JOB}/diagnoses", content=b"{"), 422, "body"),
    ]
    for response, status, words in asked:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        problem = response.json()
        assert problem["status"] == status
        assert words in problem["detail"]
        assert {"type", "title", "instance", "advice"} <= problem.keys()
    assert JOB in asked[0][0].json()["advice"]


async def test_failed_run_tells_why_to_those_who_poll(client: httpx.AsyncClient) -> None:
    """A 202 for a job that nobody knows ends in the problem, under the same address."""
    location = (await client.post("/v1/jobs/nix/diagnoses")).headers["location"]
    problem = await until_ready(client, location)
    assert (problem["status"], problem["detail"]) == (404, "no agent knows job 'nix'")


async def test_renderings(client: httpx.AsyncClient) -> None:
    """The same diagnosis as JSON, Markdown, text and a page, as the client prefers."""
    made = await diagnose(client)
    wanted = {
        "*/*": "application/json",
        "text/*": "text/markdown",
        "text/plain": "text/plain",
        "image/png, text/plain;q=0.5, text/markdown;q=0.9": "text/markdown",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": "text/html",
        "application/json;q=0.1, */*;q=0.2": "text/markdown",
    }
    for accept, media in wanted.items():
        response = await client.get(f"/v1/diagnoses/{made.id}", headers={"Accept": accept})
        assert response.headers["content-type"].partition(";")[0] == media
        assert made.headline in response.text or "rank 2" in response.text


async def test_commands_to_copy_ask_this_collector(client: httpx.AsyncClient) -> None:
    """By the name that the caller knows it by, wherever people read; programs know where they asked."""
    made = await diagnose(client)
    url = f"/v1/diagnoses/{made.id}"
    here = f"--collector http://{client.base_url.host} "
    for media in ("text/plain", "text/markdown", "text/html"):
        shown = (await client.get(url, headers={"Accept": media})).text
        assert f"unhang sequences {here}" in " ".join(shown.split()), media
    assert here not in (await client.get(url)).text
    odd = (await client.get(url, headers={"Accept": "text/markdown", "Host": "a;reboot"})).text
    assert "unhang sequences -- " in odd and "reboot" not in odd


async def test_agents_get_their_token(tmp_path: Path) -> None:
    """The agents' token is sent to them as its file holds it at that moment."""
    (tmp_path / "agent-token").write_text("first\n")
    (tmp_path / "agent-token").chmod(0o600)
    seen: list[str] = []
    node = FakeAgent("node1", ())

    class Watching(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            seen.append(request.headers["authorization"])
            return await httpx.ASGITransport(node.app).handle_async_request(request)

    chosen = settings(tmp_path, agents="node1", agent_token_file=tmp_path / "agent-token")
    app = create_app(chosen, transport=Watching())
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector") as client,
    ):
        await client.get("/v1/agents")
        (tmp_path / "agent-token").write_text("the second\n")
        await client.get("/v1/agents")
    assert seen == ["Bearer first", "Bearer the second"]


async def test_health_and_metrics(client: httpx.AsyncClient) -> None:
    """What Prometheus and a probe want to know."""
    await diagnose(client)
    assert (await client.get("/healthz")).json()["agents"] == 2
    page = (await client.get("/metrics")).text
    assert 'unhang_collector_diagnoses_total{verdict="hung"} 1.0' in page
    assert 'unhang_collector_unanswered_total{reason="timed_out"} 0.0' in page
    assert 'unhang_collector_asked_again_total{why="late"} 0.0' in page
    assert 'unhang_collector_answered_again_total{why="broke_off"} 0.0' in page
    assert "unhang_collector_kept 1.0" in page


async def test_too_many_runs_are_turned_away(tmp_path: Path) -> None:
    """A flood of questions about different jobs is bounded: 503, with advice."""
    jobs = [JOB, "second", "third"]
    slow = FakeAgent("node1", [make_rank(0, host="node1", job=job) for job in jobs], delay_seconds=60)
    app = create_app(settings(tmp_path, agents="node1"), mounts=mounts(slow))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector") as client,
    ):
        get_service(app).runs._most_waiting = 2
        answers = [await client.post(f"/v1/jobs/{job}/diagnoses") for job in jobs]
    assert [answer.status_code for answer in answers] == [202, 202, 503]
    assert "try again" in answers[2].json()["advice"]


async def test_shutdown_ends_runs(tmp_path: Path) -> None:
    """A collector that stops does not wait for a sweep that has just begun."""
    slow = FakeAgent("node1", [make_rank(0, host="node1")], delay_seconds=60)
    began = asyncio.get_running_loop().time()
    async with client_of(settings(tmp_path, agents="node1"), slow) as client:
        assert (await client.post(f"/v1/jobs/{JOB}/diagnoses")).status_code == 202
    assert asyncio.get_running_loop().time() - began < 30


async def test_openapi_is_written_for_the_one_who_writes_a_bot(client: httpx.AsyncClient) -> None:
    """Every route has a summary and a description, every parameter a description, and errors their schema."""
    document = (await client.get("/openapi.json")).json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (path, method)
            assert operation["description"], (path, method)
            assert {"200", "500"} <= operation["responses"].keys(), (path, method)
            undescribed = [p["name"] for p in operation.get("parameters", ()) if not p.get("description")]
            assert undescribed == [], (path, method)
    assert {"Diagnosis", "Problem", "RunState"} <= document["components"]["schemas"].keys()
    assert "/v1/jobs/{job}/diagnoses" in document["paths"]


async def test_openapi_document_of_the_wheel_is_what_is_served(client: httpx.AsyncClient) -> None:
    """Programs can be written against it without a service: `make openapi` writes it after a change to the API."""
    file = REPOSITORY / "collector" / "show" / "openapi.json"
    assert json.loads(file.read_text("utf-8")) == (await client.get("/openapi.json")).json()
