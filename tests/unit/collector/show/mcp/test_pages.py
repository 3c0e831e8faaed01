"""Answers in pages: bounded, and a walk over them gives every row exactly once."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.show.mcp.pages import MOST_CHARACTERS, Document, page_of
from shared.errors import InvalidInput

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
