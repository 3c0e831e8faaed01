"""Answers in pages: bounded, and a walk over them gives every row exactly once."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.show.mcp.pages import MOST_CHARACTERS, Document, page_of
from shared.errors import InvalidInput
from shared.wire.log_events import LogFile, Logs
from tests.build.agents.fake_agents import JOB, FakeAgent, make_rank
from tests.build.agents.served_agents import whole_job
from tests.build.services.mcp_clients import over_http, said, walked
from tests.unit.collector.show.mcp.test_endpoint import serving

leaves = st.none() | st.integers() | st.text(max_size=5)
texts = st.integers(0, 3_000).map(lambda times: "x" * times)
names = st.sampled_from(["a", "b", "rows", "more"])
rows = st.recursive(
    st.dictionaries(names, leaves, max_size=3),
    lambda inner: st.dictionaries(names, leaves | inner | st.lists(inner | texts, max_size=12), max_size=3),
    max_leaves=60,
)
documents = st.dictionaries(names, leaves | rows | st.lists(rows | texts, max_size=40), max_size=4)


def walk(document: Document) -> list[Document]:
    """Return all pages of a document, each of which must be within bounds."""
    pages: list[Document] = []
    cursor = None
    joined: Any = None
    while joined is None or cursor is not None:
        page = page_of(document, cursor)
        assert len(json.dumps(page.document)) <= MOST_CHARACTERS
        assert not page.shortened
        joined = page.document if joined is None else join(joined, page.document, path_of(cursor))
        assert page.next is None or page.next != cursor
        cursor = page.next
        pages.append(page.document)
    assert joined == document
    return pages


def path_of(cursor: str | None) -> list[str | int]:
    """Return where a page begins."""
    return [int(part) if part.isdecimal() else part for part in (cursor or "").split(".")]


def join(before: Any, page: Any, path: list[str | int]) -> Any:
    """Return the rows of a page behind those of the pages before, a row that goes on as one."""
    if not isinstance(page, dict):
        return page
    joined = {}
    for name, field in page.items():
        inner = path[1:] if path and path[0] == name else []
        if isinstance(field, list):
            kept, added = before[name], field
            if len(inner) > 1:
                assert kept[-1].keys() == field[0].keys()
                kept, added = [*kept[:-1], join(kept[-1], field[0], inner[1:])], field[1:]
            joined[name] = [*kept, *added]
        elif isinstance(field, dict):
            joined[name] = join(before[name], field, inner)
        else:
            assert before[name] == field
            joined[name] = field
    return joined


@settings(max_examples=150)
@given(documents)
def test_walk_gives_everything_once(document: Document) -> None:
    """Whatever the shape: lists of objects that hold lists, short rows and long ones."""
    walk(document)


def test_row_too_long_for_a_page_is_given_in_parts() -> None:
    """As the table of a process group of 8,192 ranks: its own fields each time, each lane once."""
    lanes = [{"rank": rank, "op": "all_reduce [4096]", "pending": [7, 8]} for rank in range(8192)]
    pages = walk({"job": "j", "groups": [{"name": "g0", "lanes": lanes}, {"name": "g1", "lanes": []}]})
    assert len(pages) > 10
    assert all(page["groups"][0]["name"] == "g0" for page in pages)


def test_small_answer_is_one_page() -> None:
    """Nothing is left, nothing is cut."""
    document = {"job": "j", "rows": [{"a": 1}], "coverage": {"missing": []}}
    assert page_of(document, None) == (document, None, False)


def test_text_too_long_for_a_page_is_cut() -> None:
    """A log line of a megabyte, a name of one: the answer says that it is cut, and stays within bounds."""
    page = page_of({"job": "n" * 1_000_000, "lines": [{"text": "\x00" * 1_000_000}, {"text": "next"}]}, None)
    assert page.shortened
    assert page.document["lines"][0]["text"].endswith("… (cut)")
    assert len(json.dumps(page.document)) <= MOST_CHARACTERS
    assert page.next == "lines.1" or page.document["lines"][1] == {"text": "next"}


_WRONG = ["", ".3", ".-1", ".0.a.0", ".0.rows", "..0", ".0\n", ".2.inner.0.x.0", ".0" * 40, "." + "9" * 300]


@pytest.mark.parametrize(
    "cursor", ["", "é", "0", "job.0", "nothing.0", "coverage.missing.0", *(f"rows{rest}" for rest in _WRONG)]
)
def test_cursor_that_no_page_gave(cursor: str) -> None:
    """Clients may send anything as a cursor: it is refused with what to send."""
    document = {"job": "j", "rows": [{"a": 1}, 2, {"inner": [1]}], "coverage": {"missing": []}}
    with pytest.raises(InvalidInput, match="is not a cursor of this answer") as caught:
        page_of(document, cursor)
    assert "`next`" in caught.value.advice


async def test_walk_gives_each_line_once(tmp_path: Path) -> None:
    """Of a kept diagnosis all pages can be had; of the job as it is now there is one, which says how to get more."""
    ranks = [
        rank.model_copy(update={"logs": Logs(files=(LogFile(path=f"/log/{at}", lines=_lines(at)),))})
        for at, rank in enumerate(whole_job().ranks)
    ]
    with serving(tmp_path, FakeAgent("node1", ranks)) as (service, _):
        async with over_http(service.plain_url("")) as client:
            id = (await said(client, "diagnose_job", job=JOB))["id"]
            pages = await walked(client, "show_logs", job=JOB, diagnosis=id, lines=1000)
            now = await said(client, "show_logs", job=JOB, lines=1000)
            refused = await client.call_tool("show_logs", {"job": JOB, "cursor": "lines.3"})
    assert len(pages) > 3
    assert all(len(json.dumps(page)) <= MOST_CHARACTERS for page in [*pages, now["untrusted"]])
    assert [line["text"] for page in pages for line in page["lines"]] == [
        line for at in range(4) for line in _lines(at)
    ]
    assert now["next"] is None and "`diagnosis`" in now["advice"]
    assert refused.is_error


def _lines(rank: int) -> tuple[str, ...]:
    return tuple(f"rank {rank} step {step} {'loss ' * 20}" for step in range(200))


async def test_jobs_in_pages(tmp_path: Path) -> None:
    """So many that no page holds them: each is listed once, and a cursor of a job that has ended goes on behind it."""
    names = [f"job-{number:04d}" + "." * 300 for number in range(150)]
    node = FakeAgent("node1", [make_rank(0, host="node1", job=name, pid=2000 + at) for at, name in enumerate(names)])
    with serving(tmp_path, node) as (service, _):
        async with over_http(service.plain_url("")) as client:
            first = await said(client, "list_jobs")
            pages = await walked(client, "list_jobs")
            given = len(first["untrusted"]["jobs"])
            node.ranks = tuple(rank for rank in node.ranks if rank.identity.job != names[given])
            second = await said(client, "list_jobs", cursor=first["next"])
    assert [job["name"] for page in pages for job in page["jobs"]] == names
    assert 1 < given < 150
    assert second["untrusted"]["jobs"][0]["name"] == names[given + 1]
