"""A collector and a command line of today beside agents and collectors of earlier releases, as those were recorded."""

import os
from contextlib import closing
from pathlib import Path

import httpx
import jsonschema
import pytest

from collector.app import create_app
from collector.gather.fanout.fanout import make_client
from collector.gather.sweep import list_jobs, sweep
from collector.gather.swept import Sweep
from collector.hostlists import AgentAddress
from collector.judge.verdict import diagnose
from collector.keep.store import Store
from collector.question import Question
from collector.settings import CollectorSettings
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from tests.build.processes.warm import run
from tests.system.versions.older import CULPRIT, JOB, NODES, RECORDINGS, Older, Recording, served, served_each

COMMANDS = (
    (("jobs",), JOB),
    (("diagnose",), "rank 2"),
    (("stacks",), "rank"),
    (("check",), "no problems found"),
    (("incidents",), "rank 2"),
    (("history",), "rank 2"),
)
"""What is asked of an older collector, and what must be in the answer."""

recordings = pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: folder.name)


async def asked(agents: list[Older], question: Question) -> Sweep:
    """Ask agents about the recorded job."""
    addresses = [AgentAddress(host=node, url=agent.url) for node, agent in zip(NODES, agents, strict=True)]
    async with make_client() as client:
        return await sweep(question, addresses, client)


def named(diagnosis: Diagnosis) -> set[int]:
    """Return the ranks that a verdict names."""
    return {culprit.rank for finding in diagnosis.findings for culprit in finding.culprits}


@recordings
async def test_older_agents_are_asked_and_judged(folder: Path) -> None:
    """Over real sockets, from the question to the verdict: no node is lost, and the same rank is named."""
    with served(Recording(folder)) as agents:
        swept = await asked(agents, Question(job=JOB, interval_seconds=0.1))
    assert (swept.diagnosis.verdict, named(swept.diagnosis)) == (Verdict.HUNG, {CULPRIT})
    assert (swept.diagnosis.coverage.seen, swept.diagnosis.coverage.with_trace) == (4, 4)
    assert swept.expected.unanswered == ()
    assert swept.expected.unreadable == ()


@recordings
@pytest.mark.parametrize("knows", [True, False], ids=["surveyed", "knows_no_surveys"])
async def test_older_agents_of_a_large_job(folder: Path, knows: bool) -> None:
    """They are first asked for surveys: who has none answers 404, and is asked for a snapshot instead."""
    known = [
        [each for each in told if knows or not each["asked"].startswith("/v1/survey")]
        for told in Recording(folder).exchanges.values()
    ]
    with served_each(*known) as agents:
        swept = await asked(agents, Question(job=JOB, interval_seconds=0.1, survey_above=1))
        paths = [{question.partition("?")[0] for question in agent.asked} for agent in agents]
    assert all("/v1/survey" in each and ("/v1/snapshot" in each or knows) for each in paths)
    assert (swept.diagnosis.verdict, named(swept.diagnosis)) == (Verdict.HUNG, {CULPRIT})
    assert swept.expected.unanswered == ()


@recordings
async def test_jobs_of_older_agents_are_listed(folder: Path) -> None:
    """With their hosts and their size."""
    with served(Recording(folder)) as agents:
        addresses = [AgentAddress(host=node, url=agent.url) for node, agent in zip(NODES, agents, strict=True)]
        async with make_client() as client:
            (job,) = (await list_jobs(addresses, client)).jobs
    assert (job.name, job.world_size, job.ranks, job.hosts) == (JOB, 4, "0-3", NODES)


@recordings
async def test_older_agents_register_and_their_job_is_watched(folder: Path, tmp_path: Path) -> None:
    """As they did, with and without a digest; what is answered, they take for valid."""
    recording = Recording(folder)
    app = create_app(CollectorSettings(store=f"{tmp_path}/store.sqlite3", registration_seconds=60))
    async with app.router.lifespan_context(app), make_client(transport=httpx.ASGITransport(app)) as client:
        for each in recording.registrations:
            lease = await client.put(f"http://here{each['asked']}", json=each["sent"])
            assert lease.status_code == each["status"], lease.text
            jsonschema.validate(lease.json(), recording.schema("Lease"))
        (watched,) = (await client.get("http://here/v1/watched-jobs")).json()["jobs"]
    assert (watched["job"], watched["ranks"]) == (JOB, "0-3")


@recordings
@pytest.mark.parametrize(("words", "shown"), COMMANDS, ids=[words[0] for words, _ in COMMANDS])
def test_an_older_collector_is_asked(folder: Path, words: tuple[str, ...], shown: str, tmp_path: Path) -> None:
    """By today's command line, which shows what it shows of a collector of its own release."""
    with served_each(Recording(folder).collector) as (collector,):
        command = (*words, "--collector", collector.url)
        done = run(command, environment=dict(os.environ), directory=tmp_path, seconds=60.0)
    assert shown in done.out, done.err


@recordings
def test_store_that_an_older_collector_left(folder: Path, tmp_path: Path) -> None:
    """It is migrated as it is: the diagnosis is there, with the looks that it rests on, and these are judged alike."""
    Recording(folder).make_store(tmp_path / "store.sqlite3")
    with closing(Store(tmp_path / "store.sqlite3")) as store:
        (listed,) = store.list()
        kept = store.kept(listed.id)
    assert (kept.diagnosis.verdict, named(kept.diagnosis)) == (Verdict.HUNG, {CULPRIT})
    again = diagnose(kept.snapshots, kept.expected)
    assert (again.verdict, named(again)) == (Verdict.HUNG, {CULPRIT})
