"""A collector of today and agents of earlier versions, recorded from the real ones: the verdict is what it was."""

from pathlib import Path

import pytest

from collector.gather.fanout.fanout import make_client
from collector.gather.sweep import list_jobs, sweep
from collector.gather.swept import Sweep
from collector.hostlists import AgentAddress
from collector.question import Question
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Verdict
from tests.system.versions.older import CULPRIT, JOB, NODES, RECORDINGS, OlderAgent, Recording, served

recordings = pytest.mark.parametrize("folder", RECORDINGS, ids=lambda folder: folder.name)


async def asked(agents: list[OlderAgent], question: Question) -> Sweep:
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
async def test_older_agents_are_surveyed_or_say_that_they_do_not_know_how(folder: Path) -> None:
    """A large job is first asked for surveys: who has none answers 404, and is asked for a snapshot instead."""
    with served(Recording(folder)) as agents:
        swept = await asked(agents, Question(job=JOB, interval_seconds=0.1, survey_above=1))
        first = [agent.asked[0].partition("?")[0] for agent in agents]
    assert first == ["/v1/survey"] * len(NODES)
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
def test_verdict_of_an_older_collector_is_read(folder: Path) -> None:
    """By today's command line, and by whoever uses today's models."""
    diagnosis = Diagnosis.model_validate(Recording(folder).diagnosis)
    assert (diagnosis.verdict, named(diagnosis)) == (Verdict.HUNG, {CULPRIT})
