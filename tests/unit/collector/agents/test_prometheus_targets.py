"""Prometheus' lists of targets, in files and over HTTP, whole and broken."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from collector.agents.agent_source import SourceReading
from collector.agents.file_sd import FileTargets
from collector.agents.http_sd import HttpTargets
from collector.agents.polling import PolledSource
from collector.agents.prometheus_targets import MOST_YAML_BYTES, parse_targets
from shared.errors import InvalidInput, InvalidSettings
from shared.missing import Reason
from tests.build.services.discovery_servers import http_server

GROUPS = [
    {"targets": ["node1:8471", "node2"], "labels": {"rack": "a1", "__meta_x": "y"}},
    {"targets": ["node3:443"], "labels": {"__scheme__": "https"}},
    {"targets": ["http://proxy/node4", "[fe80::7]:9000"]},
]
URLS = [
    "http://node1:8471",
    "http://node2:8471",
    "https://node3:443",
    "http://proxy/node4",
    "http://[fe80::7]:9000",
]


def urls(reading: SourceReading) -> list[str]:
    """Where the agents are, in order."""
    return [sighting.address.url for sighting in reading.sightings]


async def refreshed(standing: PolledSource) -> list[str]:
    """Ask once more."""
    await standing.refresh()
    return urls(standing.reading)


def test_all_forms_of_targets() -> None:
    """Ports, schemes, URLs and IPv6; labels of Prometheus' own are left out."""
    found = parse_targets(json.dumps(GROUPS).encode(), source="x")
    assert [each.address.url for each in found] == URLS
    assert [dict(each.labels) for each in found][:3] == [{"rack": "a1"}, {"rack": "a1"}, {}]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'[{"labels": {}}]',
        b'[{"targets": "node1"}]',
        b'[{"targets": ["node[1-131072]"]}]',
        b'[{"targets": ["a,b"]}]',
        b'[{"targets": ["node1:99999"]}]',
        b'[{"targets": ["ftp://node1"]}]',
        b'[{"targets": [""]}]',
        b'[{"targets": ["node1"], "labels": {"__scheme__": "file"}}]',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_list_is_refused(content: bytes) -> None:
    """With our own error, whatever it is."""
    with pytest.raises(InvalidInput):
        parse_targets(content, source="x")


@pytest.mark.parametrize(
    "content",
    [
        b"- targets: &a [x]\n- targets: *a\n",
        b"a: &a {<<: [*a, *a]}",
        b"- " * 50,
        b"[" * 100_000,
        b"- targets: [2026-99-99]\n",
        b"!!python/object/apply:os.system [true]",
        b"- targets: [a]\n" * (MOST_YAML_BYTES // 10),
        b"\x00",
        b"a: [",
    ],
)
def test_hostile_yaml_is_refused(content: bytes) -> None:
    """Neither aliases that grow, nor depth, nor objects, nor size."""
    with pytest.raises(InvalidInput):
        parse_targets(content, source="x", yaml=True)


async def test_files_are_read_again_and_a_broken_one_keeps_what_it_said(tmp_path: Path) -> None:
    """A new file, a changed one, one that breaks and one that is taken away; the others are not touched."""
    (tmp_path / "a.json").write_text(json.dumps(GROUPS[:1]))
    standing = PolledSource(FileTargets(f"{tmp_path}/*.json"), deadline_seconds=5)
    assert await refreshed(standing) == URLS[:2]
    (tmp_path / "b.json").write_text(json.dumps(GROUPS[1:2]))
    assert await refreshed(standing) == URLS[:3]
    (tmp_path / "a.json").write_text("[{")
    assert await refreshed(standing) == URLS[:3]
    assert [(m.reason, "a.json" in m.detail) for m in standing.reading.missing] == [(Reason.UNREADABLE, True)]
    (tmp_path / "a.json").unlink()
    assert await refreshed(standing) == URLS[2:3]
    (tmp_path / "a.json").write_text(json.dumps(GROUPS[2:]))
    assert sorted(await refreshed(standing)) == sorted(URLS[2:])
    assert (standing.reading.missing, standing.trouble) == ((), None)


async def test_named_file_that_vanishes_keeps_what_it_said(tmp_path: Path) -> None:
    """It must be there, so that is told."""
    (tmp_path / "a.json").write_text(json.dumps(GROUPS[:1]))
    standing = PolledSource(FileTargets(f"{tmp_path}/a.json"), deadline_seconds=5)
    assert await refreshed(standing) == URLS[:2]
    (tmp_path / "a.json").unlink()
    assert await refreshed(standing) == URLS[:2]
    assert "No such file" in standing.reading.missing[0].detail


async def test_yaml_file(tmp_path: Path) -> None:
    """The form that most people write."""
    (tmp_path / "agents.yml").write_text("# nodes\n- targets:\n  - node1:8471\n  - node2\n  labels: {rack: a1}\n")
    assert urls(await FileTargets(str(tmp_path / "agents.yml")).read()) == URLS[:2]


async def test_fifo_in_the_place_of_a_file_blocks_nobody(tmp_path: Path) -> None:
    """It is told as broken, within the deadline."""
    os.mkfifo(tmp_path / "a.json")
    standing = PolledSource(FileTargets(str(tmp_path / "a.json")), deadline_seconds=20)
    assert await refreshed(standing) == []
    assert len(standing.reading.missing) == 1


async def test_no_file_at_all_is_told(tmp_path: Path) -> None:
    """A pattern that matches nothing is likely a mistake."""
    standing = PolledSource(FileTargets(f"{tmp_path}/*.json"), deadline_seconds=5)
    await standing.refresh()
    assert standing.trouble is not None and "no such file" in standing.trouble.detail


async def test_http_server_is_asked_with_its_token(tmp_path: Path) -> None:
    """The list of a real server, which wants a token and does not get its own URL's password into our answers."""
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    token.chmod(0o600)
    asked: list[str | None] = []

    def answer(path: str, headers: object) -> tuple[int, bytes]:
        asked.append(headers.get("Authorization"))  # type: ignore[attr-defined]
        return 200, json.dumps(GROUPS).encode()

    with http_server(answer) as base:
        source = HttpTargets(f"{base}/agents?key=hidden", token_file=token)
        assert urls(await source.read()) == URLS
    assert asked == ["Bearer s3cret"]
    assert "hidden" not in source.name and source.name.endswith("/agents")


async def test_http_server_that_breaks_keeps_what_it_said() -> None:
    """Errors, nonsense, a list without end, and bytes that drip: the deadline holds, the last list stands."""
    answers = [(200, json.dumps(GROUPS).encode()), (500, b"no"), (200, b"<html>"), (200, b" " * 9_000_000), (403, b"")]
    with http_server(lambda path, headers: answers.pop(0)) as base:
        standing = PolledSource(HttpTargets(base), deadline_seconds=5)
        reasons = []
        while answers:
            assert await refreshed(standing) == URLS
            reasons.append(None if standing.trouble is None else standing.trouble.reason)
    assert reasons == [None, Reason.UNREADABLE, Reason.UNREADABLE, Reason.REFUSED, Reason.NOT_PERMITTED]
    assert await refreshed(standing) == URLS
    assert standing.trouble is not None and standing.trouble.reason is Reason.UNREACHABLE


async def test_http_server_that_drips_costs_its_deadline() -> None:
    """A byte now and then is no answer."""
    with http_server(lambda path, headers: (200, b" " * 1000), drip_seconds=0.05) as base:
        standing = PolledSource(HttpTargets(base), deadline_seconds=0.3)
        async with asyncio.timeout(30):
            await standing.refresh()
    assert standing.trouble is not None and standing.trouble.reason is Reason.TIMED_OUT


@pytest.mark.parametrize("url", ["node1", "ftp://node1/", "http://", "http://node1:x/", "file:///etc/passwd"])
def test_url_that_is_none_is_refused(url: str) -> None:
    """At the start, in one sentence."""
    with pytest.raises(InvalidSettings, match="not the URL"):
        HttpTargets(url)
