"""Agents of today and collectors of earlier versions: what those asked is answered, in what they took for valid."""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import jsonschema
import pytest

from agent.app import create_app
from agent.look.digests import Digests
from agent.look.progress_watch import RankProgress
from agent.registration import make_registrars
from agent.settings import AgentSettings
from collector.gather.fanout.fanout import make_client
from collector.gather.sweep import sweep
from collector.hostlists import AgentAddress
from collector.question import Question
from shared.answer.diagnosis import Diagnosis
from shared.wire.snapshot import Exited, Identity
from shared.wire.survey_form import exchange_quotes
from tests.system.live.jobs import Job
from tests.system.versions.older import JOB, RECORDINGS, Recording, served_each
from tests.system.versions.record import PROGRAM

pytestmark = [pytest.mark.live, pytest.mark.ptrace]

MODELS = {"/v1/ranks": "RankList", "/v1/snapshot": "NodeSnapshot", "/v1/survey": "Survey"}


class _Ranks:
    """Two that go on."""

    def progress(self) -> tuple[tuple[RankProgress, ...], tuple[Exited, ...]]:
        return tuple(
            RankProgress(Identity(job=JOB, rank=rank, world_size=2), 1.0, 1.0, None, False) for rank in (0, 1)
        ), ()


recordings = pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: folder.name)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """The job of the recordings, hung anew, with today's probe."""
    with Job(PROGRAM, directory=tmp_path_factory.mktemp("job"), probe=True, forked=True) as running:
        yield running


@pytest.fixture(scope="module")
async def agent(job: Job) -> AsyncIterator[httpx.AsyncClient]:
    """A client of today's agent, which sees everything on this machine, the job too."""
    app = create_app(AgentSettings(host_name="node01", beat_seconds=0))
    async with make_client(transport=httpx.ASGITransport(app)) as client:
        yield client


@pytest.fixture(scope="module")
async def diagnosis(agent: httpx.AsyncClient, job: Job) -> Diagnosis:
    """What is said of the job today."""
    question = Question(job=job.name, interval_seconds=0.1)
    return (await sweep(question, [AgentAddress(host="node01", url="http://here")], agent)).diagnosis


@pytest.fixture(scope="module")
async def snapshot(agent: httpx.AsyncClient, job: Job) -> dict[str, Any]:
    """What an agent says of it."""
    told: dict[str, Any] = (await agent.get("http://here/v1/snapshot", params={"job": job.name})).json()
    return told


def assert_valid(answer: Any, schema: dict[str, Any]) -> None:
    """Hold an answer against the schema of a model as it was."""
    jsonschema.Draft202012Validator(schema).validate(answer)


def about(job: str, pids: Sequence[int], question: str) -> str:
    """Ask of a job here what was asked of the recorded one, and of as many of its processes."""
    left = iter(pids)
    return re.sub(r"\bpid=\d+", lambda _: f"pid={next(left)}", question.replace(f"job={JOB}", f"job={job}"))


def ranks_in(told: dict[str, Any], job: str) -> list[int]:
    """Return the ranks of a job in an answer."""
    if told.get("kind") == "survey":
        jobs = [json.loads(exchange_quotes(row))["job"] for row in told["tables"]["identities"]]
        own = told["ranks"]["identity"]
        return [rank for row, rank in zip(own["row"], own["rank"], strict=True) if jobs[row] == job]
    identities = [rank.get("identity", rank) for rank in told["ranks"]]
    return [each["rank"] for each in identities if each["job"] == job]


@recordings
async def test_what_older_collectors_ask_is_answered(folder: Path, agent: httpx.AsyncClient, job: Job) -> None:
    """Each of their questions, as it was sent, about a job that hangs now: valid for them, and all ranks are in it."""
    recording = Recording(folder)
    listed = (await agent.get("http://here/v1/ranks")).json()["ranks"]
    pids = [rank["pid"] for rank in listed if rank["job"] == job.name]
    for question in recording.questions:
        some = question.count("pid=")
        answer = await agent.get(f"http://here{about(job.name, pids, question)}")
        told = answer.raise_for_status().json()
        assert_valid(told, recording.schema(MODELS[urlsplit(question).path]))
        assert ranks_in(told, job.name) == list(range(some or 4))


@recordings
async def test_verdict_of_today_is_read_by_older_command_lines_and_bots(folder: Path, diagnosis: Diagnosis) -> None:
    """The words in it are words that they knew, for a hang of a kind that they knew."""
    assert diagnosis.verdict.value == "hung"
    assert_valid(diagnosis.model_dump(mode="json", by_alias=True), Recording(folder).schema("Diagnosis"))


@recordings
def test_agent_registers_at_an_older_collector(folder: Path) -> None:
    """It takes the older lease, sends the digest that this asks for, and is valid for whom it tells."""
    recording = Recording(folder)
    digests = Digests(_Ranks())  # type: ignore[arg-type]
    digests.renew()
    with served_each(recording.collector) as (collector,):
        (registrar,) = make_registrars(AgentSettings(host_name="node01", collectors=collector.url), digests)
        leases = [registrar.register() for _ in range(2)]
    assert [each.host for each in leases] == ["node01"] * 2
    for told in collector.told:
        assert_valid(json.loads(told), recording.schema("Registration"))
    assert [json.loads(told).get("digest") is not None for told in collector.told] == [False, True]


@recordings
async def test_what_is_not_valid_for_them_is_found(folder: Path, snapshot: dict[str, Any]) -> None:
    """The schemas are no sieves: a field of another type, or one that is gone, is no answer for them."""
    recording = Recording(folder)
    for spoilt in ({"ranks": [{**snapshot["ranks"][0], "identity": None}]}, {"schema_version": "one"}):
        with pytest.raises(jsonschema.ValidationError):
            assert_valid({**snapshot, **spoilt}, recording.schema("NodeSnapshot"))
