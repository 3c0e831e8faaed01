"""Half characters in what callers send: JSON can write them, and nothing can store, send or show them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.build.agents.fake_agents import JOB, two_nodes
from tests.unit.collector.keep.test_preflights import result
from tests.unit.collector.test_app import client_of, diagnose, settings

HALF = "half \ud800"

BODIES: Mapping[str, Any] = {
    "PUT /v1/agents/node9": {"url": "http://node9:8471", "jobs": ["a"], "version": "1"},
    f"POST /v1/jobs/{JOB}/diagnoses": {"interval_seconds": 0.01, "native": "never"},
    "POST /v1/incidents/0/acknowledge": {"by": "Ann", "note": "seen"},
    "POST /v1/incidents/0/false-alarm": {"by": "Ann", "note": "none"},
    "POST /v1/silences": {
        "matchers": [{"name": "job", "value": "a", "isRegex": False, "isEqual": True}],
        "startsAt": "2026-11-23T00:00:00Z", "endsAt": "2036-11-23T00:00:00Z", "createdBy": "Ann", "comment": "why",
    },
    "POST /v1/preflights": json.loads(result().model_dump_json()),
    "POST /mcp": {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_job", "arguments": {"job": "a"}}
    },
}  # fmt: skip


def broken(value: Any) -> Iterator[Any]:
    """Yield the value with half a character in one place: each text, each name, and a name more."""
    if isinstance(value, str):
        yield HALF
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from ([*value[:at], each, *value[at + 1 :]] for each in broken(part))
    elif isinstance(value, dict):
        yield {**value, HALF: 1}
        for name, part in value.items():
            yield {**{other: value[other] for other in value if other != name}, HALF: part}
            yield from ({**value, name: each} for each in broken(part))


@pytest.mark.parametrize("route", BODIES)
async def test_bodies(route: str, tmp_path: Path) -> None:
    """Whatever the place, the answer is no failure of ours, it can be read, and all views are there afterwards."""
    method, _, path = route.partition(" ")
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with client_of(settings(tmp_path), *two_nodes()) as client:
        for body in [HALF, [HALF], *broken(BODIES[route])]:
            answer = await client.request(method, path, content=json.dumps(body), headers=headers)
            assert answer.status_code < 500, (body, answer.text)
            answer.content.decode()
        made = await diagnose(client)
        views = ("/", "/incidents", "/diagnoses", "/preflights", "/v1/silences", "/v1/incidents", "/v1/preflights")
        for view in (*views, "/v1/jobs", "/v1/agents", f"/v1/diagnoses/{made.id}"):
            shown = await client.get(view, headers={"Accept": "text/html" if not view.startswith("/v1") else "*/*"})
            assert shown.status_code == 200, (view, shown.text)
