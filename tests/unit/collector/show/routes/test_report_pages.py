"""The page of a diagnosis as it is sent: the answers first, then the rest; whole where that cannot be read, too."""

from pathlib import Path

import httpx
import pytest

from collector.keep.database import StoreTrouble
from collector.keep.store import Store
from tests.build.agents.served_agents import whole_job
from tests.unit.collector.test_app import client_of, diagnose, settings

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
