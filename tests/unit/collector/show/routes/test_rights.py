"""Every route, asked with bound tokens: nothing of another's job comes out, by no list, event or error."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector import watcher
from collector.agents.agent_source import PodPlace
from collector.agents.directory import Directory
from collector.app import create_app, get_service
from collector.settings import CollectorSettings
from collector.show.routes.rights import RULES, Rule
from shared.value import Value
from tests.build.agents.fake_agents import FakeAgent, make_rank, mounts, trace_of
from tests.build.services.stores import empty_store

ANN, BOB = "1001", "1002"
OURS, THEIRS = "ann-llama", "bob-secret"
"""Nothing of the second may come out to Ann."""

TOKENS = """
everything
ann users=1001
ann-reads users=1001 may=read
reads may=read
team-a namespaces=team-a
both users=1001 namespaces=team-b
"""

OPEN = {"/healthz", "/login"}
"""Routes without a token."""

CALLS: Mapping[tuple[str, str], dict[str, Any]] = {
    ("GET", "/v1/jobs/{job:path}/ranks/{rank}/deep"): {"params": {"how": "gdb"}},
    ("GET", "/v1/events"): {"params": {"after": 0, "seconds": 0}},
    ("POST", "/v1/jobs/{job:path}/diagnoses"): {"params": {"wait": 30}},
    ("PUT", "/v1/agents/{host}"): {"json": {"url": "http://node1:8471"}},
    ("POST", "/v1/silences"): {
        "json": {
            "matchers": [{"name": "job", "value": THEIRS}],
            "startsAt": "2026-01-01T00:00:00Z",
            "endsAt": "2099-01-01T00:00:00Z",
            "createdBy": "ann",
            "comment": "mine?",
        }
    },
}
"""What a route needs besides its path."""


def nodes(*, same_name: bool = False) -> tuple[FakeAgent, ...]:
    """Two jobs of two users on two nodes that they share; on each, rank 2 has not joined."""
    jobs = ((OURS, ANN), (OURS if same_name else THEIRS, BOB))
    return tuple(
        FakeAgent(
            host,
            [
                make_rank(
                    rank,
                    host=host,
                    job=job,
                    user=user,
                    recorder=trace_of("missing_rank2", rank),
                    pid=int(user) * 10 + rank,
                )
                for job, user in jobs
                for rank in ranks
            ],
        )
        for host, ranks in (("node1", (0, 1)), ("node2", (2, 3)))
    )


class Clients:
    """One collector, and its callers by token."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._transport = httpx.ASGITransport(app)

    def of(self, token: str) -> httpx.AsyncClient:
        """A client with this token."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.AsyncClient(transport=self._transport, base_url="http://collector", headers=headers)


@asynccontextmanager
async def collector(folder: Path, *agents: FakeAgent, **more: Any) -> AsyncIterator[Clients]:
    """A collector with these tokens."""
    tokens = folder / "tokens"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    fields = {"agents": "node[1-2]", "store": empty_store(folder), "interval_seconds": 0.01, **more}
    settings = CollectorSettings.model_validate({"token_file": tokens, "registration_seconds": 60.0, **fields})
    app = create_app(settings, mounts=mounts(*agents))
    async with app.router.lifespan_context(app):
        yield Clients(app)


class Made(Value):
    """What is there to be found out, of one job."""

    diagnosis: str
    incident: str
    silence: str


async def digests(admin: httpx.AsyncClient) -> None:
    """Let agents tell that both jobs stand still."""
    jobs = [
        {
            "job": job, "user": user, "world_size": 4, "ranks": [0, 1, 2, 3], "still": [31.0] * 4, "idle": [31.0] * 4,
            "pending": [True] * 4, "group": [0] * 4, "sequence": [9] * 4, "groups": ["0"],
        }
        for job, user in ((OURS, ANN), (THEIRS, BOB))
    ]  # fmt: skip
    body = {"url": "http://node1:8471", "digest": {"jobs": jobs}}
    assert (await admin.put("/v1/agents/node1", json=body)).status_code == 200


async def both_hang(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> dict[str, Made]:
    """Have an incident of each job; returns what is kept of each."""
    monkeypatch.setattr(get_service(clients.app).watcher, "_clock", lambda: 20.0 * time.monotonic())
    async with clients.of("everything") as admin:
        await digests(admin)
        deadline = time.monotonic() + 90.0
        while len(found := (await admin.get("/v1/incidents")).json()["incidents"]) < 2:
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.05)
        made = {}
        for each in found:
            matchers = [{"name": "job", "value": each["job"]}, {"name": "user", "value": each["user"]}]
            body = {**CALLS["POST", "/v1/silences"]["json"], "matchers": matchers, "comment": each["job"]}
            silence = (await admin.post("/v1/silences", json=body)).json()["silenceID"]
            made[each["job"]] = Made(diagnosis=each["diagnoses"][0], incident=each["id"], silence=silence)
        return made


def routes_of(app: Any) -> list[tuple[str, str]]:
    """Return method and path of every route of the application, whatever router it came by."""
    found = []
    for route in app.routes:
        if (router := getattr(route, "original_router", None)) is not None:  # of newer versions of FastAPI
            found += routes_of(router)
        methods = getattr(route, "methods", None) or set()
        found += [(method, route.path) for method in methods if method not in ("HEAD", "OPTIONS")]
    return sorted(found)


def path_for(path: str, job: str, made: Made) -> str:
    """Fill in what a route is about."""
    id = made.incident if "incidents" in path else made.silence if "silences" in path else made.diagnosis
    return path.replace("{job:path}", job).replace("{id}", id).replace("{rank}", "2").replace("{host}", "node1")


async def test_every_route_has_a_rule(tmp_path: Path) -> None:
    """A route that is added without one fails here; at run time it would be refused to whoever is bound."""
    async with collector(tmp_path) as clients:
        guarded = {
            (method, path)
            for method, path in routes_of(clients.app)
            if path not in OPEN | {"/docs", "/openapi.json", "/mcp"}
        }
        assert guarded == set(RULES)


async def test_nothing_of_anothers_job_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ann asks every route about Bob's job and about her own: of Bob's there is no word, as if there were none."""
    monkeypatch.setattr(watcher, "STEP_SECONDS", 0.02)
    async with collector(tmp_path, *nodes()) as clients:
        made = await both_hang(clients, monkeypatch)
        nothing = Made(diagnosis="0195a1c8-7b31-7b3f-a2d6-a3933daff891", incident="0195a1c8", silence="0195a1c8")
        secrets = (THEIRS, *made[THEIRS].model_dump().values())
        async with clients.of("ann") as ann, clients.of("everything") as admin:
            for method, path in RULES:
                call = CALLS.get((method, path), {})
                theirs = await ann.request(method, path_for(path, THEIRS, made[THEIRS]), **call)
                none = await ann.request(method, path_for(path, "no-such-job", nothing), **call)
                ours = await ann.request(method, path_for(path, OURS, made[OURS]), **call)
                assert theirs.status_code == none.status_code, (method, path, theirs.text)
                if "{" in path and RULES[method, path] in (Rule.CUT, Rule.LOOKS):
                    assert theirs.status_code == (200 if path.endswith("/health") else 404), (method, path)
                    assert ours.status_code != 404 or "/deep" in path, (method, path, ours.text)
                echoed = {THEIRS} if "{job" in path or path == "/v1/silences" else set()
                for secret in secrets:
                    known = secret in theirs.request.url.path or secret in echoed
                    assert known or secret not in theirs.text, (method, path, secret)
                    assert secret not in ours.text, (method, path, secret)
                    assert secret not in none.text, (method, path, secret)
            for id in (made[OURS].diagnosis, made[THEIRS].diagnosis):
                assert (await admin.get(f"/v1/diagnoses/{id}")).status_code == 200


async def test_own_jobs_are_seen_in_every_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cut is others': Ann's own is all there."""
    monkeypatch.setattr(watcher, "STEP_SECONDS", 0.02)
    async with collector(tmp_path, *nodes()) as clients:
        made = (await both_hang(clients, monkeypatch))[OURS]
        async with clients.of("ann") as ann:
            assert [job["name"] for job in (await ann.get("/v1/jobs")).json()["jobs"]] == [OURS]
            assert [job["job"] for job in (await ann.get("/v1/watched-jobs")).json()["jobs"]] == [OURS]
            assert [each["id"] for each in (await ann.get("/v1/incidents")).json()["incidents"]] == [made.incident]
            kept = (await ann.get("/v1/diagnoses", params={"job": OURS})).json()["diagnoses"]
            assert made.diagnosis in {each["id"] for each in kept}
            said = await ann.get("/v1/events", params={"after": 0, "seconds": 0})
            told = [json.loads(line[6:]) for line in said.text.splitlines() if line.startswith("data: ")]
            assert {(each.get("incident") or each)["job"] if "kind" in each else each["job"] for each in told} == {OURS}
            assert [each["id"] for each in (await ann.get("/v1/silences")).json()["silences"]] == [made.silence]
            said = await ann.post(f"/v1/incidents/{made.incident}/acknowledge")
            assert said.json()["state"] == "acknowledged"
            diagnosed = await ann.post(f"/v1/jobs/{OURS}/diagnoses", params={"wait": 30})
            assert (diagnosed.json()["verdict"], diagnosed.json()["user"]) == ("hung", ANN)
            at = diagnosed.headers["location"]
            assert (await ann.get(at)).status_code == (await ann.get(f"{at}/bundle")).status_code == 200
            looked = await ann.get(f"/v1/jobs/{OURS}/stacks", params={"diagnosis": at.rpartition("/")[2]})
            assert looked.status_code == 200
            compared = await ann.get("/compare", params={"left": made.diagnosis, "right": at.rpartition("/")[2]})
            assert compared.status_code == 200
            refused = await ann.get("/metrics"), await ann.get("/v1/agents")
            assert [each.status_code for each in refused] == [403, 403]


async def test_who_may_read_does_not_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is kept is there; what would ask a rank, or change anything, is refused, bound or not."""
    monkeypatch.setattr(watcher, "STEP_SECONDS", 0.02)
    async with collector(tmp_path, *nodes()) as clients:
        made = (await both_hang(clients, monkeypatch))[OURS]
        for token in ("ann-reads", "reads"):
            async with clients.of(token) as reader:
                for method, path in RULES:
                    answer = await reader.request(method, path_for(path, OURS, made), **CALLS.get((method, path), {}))
                    looks = path.startswith("/v1/jobs/{job:path}/")
                    changes = method != "GET" and path != "/logout"
                    all_jobs = token == "ann-reads" and RULES[method, path] in (Rule.ALL_JOBS, Rule.ALL_JOBS_LOOKS)
                    refused = looks or changes or all_jobs
                    assert (answer.status_code == 403) == refused, (token, method, path, answer.text)
                kept = await reader.get(f"/v1/jobs/{OURS}/logs", params={"diagnosis": made.diagnosis})
                assert kept.status_code == 200


async def test_job_of_the_same_name_is_never_mixed_in(tmp_path: Path) -> None:
    """Ann asks for the bare name that two users gave: she gets hers, and is not told that there is another."""
    async with collector(tmp_path, *nodes(same_name=True), survey_above=1) as clients, clients.of("ann") as ann:
        made = (await ann.post(f"/v1/jobs/{OURS}/diagnoses", params={"wait": 30})).json()
        assert (made["user"], made["coverage"]["seen"]) == (ANN, 4)
        assert [(job["name"], job["user"]) for job in (await ann.get("/v1/jobs")).json()["jobs"]] == [(OURS, ANN)]
        assert (await ann.get(f"/v1/jobs/{OURS}@{BOB}")).status_code == 404
        assert (await ann.post(f"/v1/jobs/{OURS}@{BOB}/diagnoses")).status_code == 404
        seen = (await ann.get(f"/v1/jobs/{OURS}/sequences")).text
        assert BOB not in seen and str(int(BOB) * 10) not in seen


async def test_namespace_is_known_by_pods_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is a namespace's if all of its ranks' pods are; one rank of which that is not known hides it."""
    pods = {
        uid: PodPlace(uid=uid, namespace=namespace, name=uid, node=None, job=None, containers={})
        for uid, namespace in (("a", "team-a"), ("b", "team-b"))
    }
    agents = nodes()
    placed = {OURS: "a", THEIRS: "b"}

    def place(*, lost: int | None = None) -> None:
        for agent in agents:
            agent.ranks = tuple(
                rank.model_copy(
                    update={
                        "identity": rank.identity.model_copy(
                            update={"pod_uid": None if rank.identity.rank == lost else placed[rank.identity.job or ""]}
                        )
                    }
                )
                for rank in agent.ranks
            )

    monkeypatch.setattr(Directory, "pods", property(lambda self: pods))
    async with collector(tmp_path, *agents) as clients:
        place()
        async with clients.of("team-a") as team, clients.of("both") as both, clients.of("everything") as admin:
            theirs = (await admin.post(f"/v1/jobs/{THEIRS}/diagnoses", params={"wait": 30})).json()
            assert [job["name"] for job in (await team.get("/v1/jobs")).json()["jobs"]] == [OURS]
            ours = await team.post(f"/v1/jobs/{OURS}/diagnoses", params={"wait": 30})
            assert ours.json()["verdict"] == "hung"
            assert [each["id"] for each in (await team.get("/v1/diagnoses")).json()["diagnoses"]] == [ours.json()["id"]]
            assert (await team.get(f"/v1/diagnoses/{theirs['id']}")).status_code == 404
            assert (await both.get("/v1/jobs")).json()["jobs"] == []
            assert (await both.get("/v1/diagnoses")).json()["diagnoses"] == []
            place(lost=3)
            assert (await team.get("/v1/jobs")).json()["jobs"] == []
            assert (await team.post(f"/v1/jobs/{OURS}/diagnoses")).status_code == 404
