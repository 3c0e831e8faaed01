"""Agents and collectors of neighbouring versions understand each other, as docs/operations.md promises."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from pydantic import BaseModel

from agent.app import create_app
from agent.settings import AgentSettings
from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.missing import Missing
from shared.wire.columns import Columns
from shared.wire.snapshot import NodeSnapshot, RankList
from shared.wire.stacks import Stacks, Thread
from shared.wire.survey_form import Survey, exchange_quotes
from shared.wire.survey_read import SurveyReader
from shared.wire.survey_write import survey_of
from shared.wire.trace import Group, Trace
from tests.build.agents.fake_agents import case_ranks

CONTRACT = Path(__file__).parents[3] / "data" / "contract" / "required_fields.txt"
CULPRIT = 2


def nodes() -> tuple[NodeSnapshot, ...]:
    """Two looks at two nodes of a recorded job, in which rank 2 stays away."""
    return tuple(
        NodeSnapshot(host=host, taken_at_ns=at * 10**9, ranks=case_ranks("missing_rank2", ranks, host=host))
        for at in (100, 110)
        for host, ranks in (("node1", (0, 1)), ("node2", (2, 3)))
    )


def changed(value: Any, dumped: Any, change: Any) -> Any:
    """Return what `value` looks like on the wire, with `change` made to every model in it."""
    if isinstance(value, BaseModel):
        parts = {name: changed(getattr(value, name), part, change) for name, part in dumped.items()}
        return change(value, parts)
    if isinstance(value, tuple | list) and isinstance(dumped, list) and len(value) == len(dumped):
        return [changed(*pair, change) for pair in zip(value, dumped, strict=True)]
    return dumped


def newer(_: BaseModel, parts: dict[str, Any]) -> dict[str, Any]:
    """Add what nobody knows yet."""
    return {"invented_later": {"a": [1, None]}, **parts, "and_this": "too"}


def older(model: BaseModel, parts: dict[str, Any]) -> dict[str, Any]:
    """Leave out all that has a default: whatever was added after the first version has one."""
    if isinstance(model, Stacks | Thread | Trace | Group):
        return parts  # columns and tables: they were there from the beginning, and are empty by default
    fields = type(model).model_fields
    return {name: part for name, part in parts.items() if fields[name].is_required() or name in ("ranks", "host")}


def as_sent(node: NodeSnapshot, change: Any) -> bytes:
    """Return the bytes that a neighbour of another version would send."""
    return json.dumps(changed(node, json.loads(node.model_dump_json()), change)).encode()


def survey_as_sent(node: NodeSnapshot, change: Any) -> bytes:
    """Return the survey that a neighbour of another version would send, its rows changed as well."""
    survey = survey_of(node)
    sent = changed(survey, json.loads(survey.model_dump_json()), change)
    for rows in (rows for rows in sent["tables"].values() if isinstance(rows, list)):
        rows[:] = [exchange_quotes(json.dumps(change(survey, json.loads(exchange_quotes(row))))) for row in rows]
    return json.dumps(sent).encode()


def surveyed(sent: bytes) -> NodeSnapshot:
    """Return what a collector of ours reads in a survey."""
    return SurveyReader().snapshot_of(Survey.model_validate_json(sent))


def named_in(diagnosis: Diagnosis) -> set[int]:
    """Return the ranks that a verdict names."""
    return {culprit.rank for finding in diagnosis.findings for culprit in finding.culprits}


def test_answer_of_a_newer_agent_loses_nothing() -> None:
    """Fields that we do not know are ignored, wherever they stand."""
    for node in nodes():
        sent = as_sent(node, newer)
        assert sent.count(b"invented_later") > 10
        assert NodeSnapshot.model_validate_json(sent) == NodeSnapshot.model_validate_json(node.model_dump_json())


def test_answer_of_an_older_agent_is_judged_as_ever() -> None:
    """Without any field that may have been added since, the verdict is the same: records and stacks carry it."""
    read = [NodeSnapshot.model_validate_json(as_sent(node, older)) for node in nodes()]
    assert sum(len(node.ranks) for node in read) == 8
    assert sum(not isinstance(rank.recorder, Missing) for node in read for rank in node.ranks) == 8
    assert named_in(diagnose(read, Expected())) == {CULPRIT}


def test_survey_of_a_newer_agent_loses_nothing() -> None:
    """Columns, tables and fields of rows that we do not know are ignored."""
    for node in nodes():
        sent = survey_as_sent(node, newer)
        assert sent.count(b"invented_later") > 20
        assert surveyed(sent) == surveyed(survey_of(node).model_dump_json().encode())
    assert named_in(diagnose([surveyed(survey_as_sent(node, newer)) for node in nodes()], Expected())) == {CULPRIT}


@pytest.mark.parametrize("who", ["node1", "node2"])
def test_cluster_in_the_middle_of_an_upgrade_is_judged(who: str) -> None:
    """One node's agent is newer, the other's is ours: the verdict is that of a cluster of one version."""
    mixed = [NodeSnapshot.model_validate_json(as_sent(node, newer)) if node.host == who else node for node in nodes()]
    told, expected = diagnose(mixed, Expected()), diagnose(list(nodes()), Expected())
    assert named_in(told) == {CULPRIT}
    assert told == expected


def test_diagnosis_of_a_newer_collector_is_read() -> None:
    """By a command line, or by a bot that uses our models."""
    diagnosis = diagnose(list(nodes()), Expected())
    sent = json.dumps(changed(diagnosis, json.loads(diagnosis.model_dump_json()), newer))
    assert Diagnosis.model_validate_json(sent) == Diagnosis.model_validate_json(diagnosis.model_dump_json())


async def test_question_of_a_newer_collector_is_answered() -> None:
    """An agent ignores options of a question that it does not know; a route it does not know is a plain 404."""
    app = create_app(AgentSettings(beat_seconds=0))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent") as client:
        answer = await client.get("/v1/snapshot", params={"job": "none-such", "invented_later": "yes"})
        unknown = await client.get("/v1/invented-later")
    assert NodeSnapshot.model_validate_json(answer.raise_for_status().content).ranks == ()
    assert (unknown.status_code, unknown.json()["status"]) == (404, 404)


def test_what_must_be_there_stays_what_must_be_there() -> None:
    """Fields that every agent sends, and rows that have no names on the wire. With one more in a type that there was,
    the answers of older agents cannot be read, with one fewer those of newer agents by older collectors: that takes
    another schema version and a word in docs/operations.md. Types that are new may bring what they like: add them here.

    Likewise the columns of surveys. A field that was told in rows and becomes a column is read as nothing by older
    collectors; only a field that is new itself may be one.
    """
    recorded = dict(line.split(": ") for line in CONTRACT.read_text(encoding="ascii").splitlines())
    found = dict(line for model in (NodeSnapshot, RankList, Survey) for line in required(model, set()))
    assert {name: fields for name, fields in found.items() if name in recorded} == recorded


def required(kind: Any, seen: set[Any]) -> Iterator[tuple[str, str]]:
    """Yield each type that `kind` is made of, and what has to be there of it."""
    if kind in seen:
        return
    seen.add(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        is_told = issubclass(kind, Columns)
        yield (
            kind.__name__,
            " ".join(name for name, field in kind.model_fields.items() if is_told or field.is_required()),
        )
        for field in kind.model_fields.values():
            yield from required(field.annotation, seen)
    elif isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        yield kind.__name__, " ".join(kind._fields)
    for part in get_args(kind):
        yield from required(part, seen)
