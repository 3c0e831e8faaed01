"""Preflights over REST: kept as they are sent, behind the same gate as all else, and shown by node."""

import json
from pathlib import Path
from typing import Any

import pytest

from shared.answer.preflight import NodeState
from tests.unit.collector.keep.test_preflights import result
from tests.unit.collector.test_app import client_of, settings

HOSTILE = "<script>alert(1)</script>\x1b[2J$(reboot)\x00\u202e"


def body(**more: Any) -> dict[str, Any]:
    """A result as it is sent."""
    return {**json.loads(result().model_dump_json()), **more}


async def test_what_is_sent_is_listed(tmp_path: Path) -> None:
    """With its states; of one node, how often it was bad."""
    async with client_of(settings(tmp_path)) as client:
        sent = [await client.post("/v1/preflights", json=body(headline=f"number {at}")) for at in range(3)]
        assert [answer.status_code for answer in sent] == [200] * 3
        await client.post("/v1/preflights", json=body(hosts={"good": ["n2"]}))
        page = (await client.get("/v1/preflights", params={"host": "n2", "limit": 3})).json()
        assert page["node"] == {"host": "n2", "preflights": 3, "states": {"good": 1, "bad": 2}}
        assert page["next"] is not None
        one = await client.get(f"/v1/preflights/{sent[0].json()['id']}")
        assert (one.json()["headline"], one.json()["hosts"]["bad"]) == ("number 0", ["n2"])
        assert (await client.get("/v1/preflights/nothing")).status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"verdict": "splendid"},
        {"hosts": {"good": ["n" * 301]}},
        {"hosts": {"excellent": ["n1"]}},
        {"headline": "x" * 4001},
        {"findings": [{"kind": "node_fails", "hosts": ["n1"], "text": "x"}] * 201},
        {"took_seconds": "NaN"},
        {"took_seconds": "3"},
        {"headline": "\ud800"},
    ],
    ids=str,
)
async def test_what_is_no_result_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """As bad input, and nothing of it is kept."""
    async with client_of(settings(tmp_path)) as client:
        answer = await client.post("/v1/preflights", content=json.dumps(body(**wrong)))
        assert 400 <= answer.status_code < 500, answer.text
        assert (await client.get("/v1/preflights")).json()["preflights"] == []


async def test_hostile_text_is_text(tmp_path: Path) -> None:
    """It comes back as it was sent, as JSON."""
    async with client_of(settings(tmp_path)) as client:
        hosts = {NodeState.BAD.value: [HOSTILE]}
        sent = await client.post("/v1/preflights", json=body(headline=HOSTILE, hosts=hosts))
        assert sent.status_code == 200, sent.text
        (kept,) = (await client.get("/v1/preflights", params={"host": HOSTILE})).json()["preflights"]
        assert (kept["headline"], kept["hosts"]["bad"]) == (HOSTILE, [HOSTILE])


async def test_thousands_of_nodes_fit_and_more_than_that_does_not(tmp_path: Path) -> None:
    """Other routes take 64 KiB as before."""
    names = [f"node-of-a-large-cluster-{number:05}" for number in range(16_384)]
    async with client_of(settings(tmp_path)) as client:
        assert (await client.post("/v1/preflights", json=body(hosts={"good": names}))).status_code == 200
        assert (await client.post("/v1/preflights", content=b" " * 1_048_577)).status_code == 413
        assert (await client.post("/v1/silences", content=b" " * 65_537)).status_code == 413
