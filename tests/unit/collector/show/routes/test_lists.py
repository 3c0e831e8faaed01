"""What routes send of kept diagnoses: lists in pages, views made once, and the page of a verdict in pieces."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from collector.keep.database import StoreTrouble
from collector.keep.store import Store
from collector.show.routes.common import cut_at
from collector.show.routes.kept_views import KeptViews
from tests.build.agents.served_agents import whole_job
from tests.unit.collector.test_app import client_of, diagnose, settings


@pytest.mark.parametrize(("ids", "shown", "following"), [("", "", None), ("ab", "ab", None), ("abc", "ab", "b")])
def test_a_page_says_what_to_go_on_before_where_there_is_more(ids: str, shown: str, following: str | None) -> None:
    """Of two rows a page; one more was asked for."""
    rows, before = cut_at(tuple(SimpleNamespace(id=id) for id in ids), 2)
    assert ("".join(row.id for row in rows), before) == (shown, following)


def making(made: list[str], name: str, body: bytes) -> Callable[[], Awaitable[bytes]]:
    """Return what makes a view, and notes that it did."""

    async def make() -> bytes:
        made.append(name)
        return body

    return make


async def test_each_is_made_once() -> None:
    """Whoever asks again gets the same; another question has an answer of its own."""
    views, made = KeptViews(), list[str]()
    for name in ("logs", "stacks", "logs"):
        assert await views.get(("id", name), making(made, name, name.encode() * 9)) == name.encode() * 9
    assert made == ["logs", "stacks"]


async def test_they_are_bounded() -> None:
    """What was not asked for longest goes first, and what is too large alone is not kept."""
    views, made = KeptViews(most_bytes=2_500), list[str]()
    bodies = {name: os.urandom(1_000) for name in "abc"} | {"large": os.urandom(3_000)}
    for name in ("a", "b", "a", "c", "a", "b", "large", "large", "b"):
        assert await views.get(name, making(made, name, bodies[name])) == bodies[name]
    assert made == ["a", "b", "c", "b", "large", "large"]


PAGE = {"Accept": "text/html", "Sec-Fetch-Site": "none"}


async def test_in_pieces_it_is_the_page_that_is_kept(tmp_path: Path) -> None:
    """The first time the verdict comes before the rest; the second time all at once, to the letter the same."""
    async with client_of(settings(tmp_path), whole_job()) as client:
        made = await diagnose(client)
        first, second = [await client.get(f"/diagnoses/{made.id}", headers=PAGE) for _ in range(2)]
    assert first.status_code == 200 and "content-length" not in first.headers and "content-length" in second.headers
    assert first.text == second.text and first.text.rstrip().endswith("</html>")
    assert first.text.count('class="answer ') == 4 and 'id="stacks"' in first.text


async def test_what_cannot_be_read_is_said_below_the_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict was read, what it rests on was not: the answers stand, and the page is whole."""

    def lost(*_: object) -> None:
        raise StoreTrouble("the disk is full of holes <b>")

    async with client_of(settings(tmp_path), whole_job()) as client:
        made = await diagnose(client)
        monkeypatch.setattr(Store, "kept", lost)
        shown: httpx.Response = await client.get(f"/diagnoses/{made.id}", headers=PAGE)
    assert shown.text.count('class="answer ') == 4 and "cannot be shown: " in shown.text
    assert "full of holes &lt;b&gt;" in shown.text and shown.text.rstrip().endswith("</html>")
