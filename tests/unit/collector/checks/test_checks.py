"""The route to the checks, and their page, which names each of them with the severities that it can have."""

import re
from pathlib import Path

from shared.answer.checks import CheckId, Severity
from tests.build.agents.fake_agents import FakeAgent
from tests.build.jobs.checked_jobs import job, rank
from tests.unit.collector.checks.test_all import SPOILT
from tests.unit.collector.test_app import client_of, settings


async def test_checks_of_a_job(tmp_path: Path) -> None:
    """What differs between two nodes that know nothing of each other; the same in the diagnosis."""
    one, two = job(rank(3, settings={"NCCL_ALGO": "Tree"}))
    agents = (FakeAgent("node1", one.ranks), FakeAgent("node2", two.ranks))
    async with client_of(settings(tmp_path), *agents) as client:
        answer = (await client.get("/v1/jobs/night/check")).json()
        diagnosis = (await client.post("/v1/jobs/night/diagnoses", params={"wait": 30})).json()
    assert answer["looked_at"] == "0-3"
    assert [(check["id"], check["ranks"], check["hosts"]) for check in answer["checks"]] == [
        ("settings_differ", "3", ["node2"])
    ]
    assert diagnosis["checks"] == answer["checks"]


async def test_half_of_a_job_finds_the_other(tmp_path: Path) -> None:
    """The other half has another name, and is known from the agents' lists alone."""
    one, two = job()
    other = tuple(
        each.model_copy(update={"identity": each.identity.model_copy(update={"job": "node9:29501"})})
        for each in two.ranks
    )
    agents = (FakeAgent("node1", one.ranks), FakeAgent("node2", other))
    async with client_of(settings(tmp_path), *agents) as client:
        (found,) = (await client.get("/v1/jobs/night/check")).json()["checks"]
    assert (found["id"], found["ranks"]) == ("two_rendezvous", "0-1")
    assert "node9:29501 on node2" in found["seen"]


PAGE = (Path(__file__).parents[4] / "docs" / "checks.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", PAGE, re.MULTILINE))


def test_every_check_stands_in_the_page() -> None:
    """In the order of the enumeration, which is the API's."""
    assert list(ROWS) == [each.value for each in CheckId]


def test_severities_are_those_of_the_page() -> None:
    """What the tests see a check say is what the page says of it; and each check is seen."""
    words = {each.value for each in Severity}
    assert all(set(told.split(", ")) <= words for told in ROWS.values())
    for _, what, severity, *_ in SPOILT.values():
        assert severity in ROWS[what].split(", ")
    assert {CheckId(what) for _, what, *_ in SPOILT.values()} == set(CheckId) - {CheckId.SITE_RULE}
