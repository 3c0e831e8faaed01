"""Past diagnoses are found by job, node, kind and cause, page by page."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.align.expected import Expected
from collector.gather.judge_and_stamp import new_id, rfc3339
from collector.keep.history import PastWanted, search
from collector.keep.store import Store
from shared.answer.words import Cause, Kind
from tests.build.jobs.verdicts import VERDICTS

NAMES = ("rank_not_joined", "rank_stopped", "not_hung", "p2p_deadlock")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """One diagnosis of each of NAMES, three times over, the last of them the newest."""
    store = Store(tmp_path / "store.sqlite3")
    for name in NAMES * 3:
        now = time.time_ns()
        made = {"id": new_id(now), "made_at": rfc3339(now), "job": name}
        store.save(VERDICTS[name]().model_copy(update=made), Expected(job=name), ())
    yield store
    store.close()


@pytest.mark.parametrize(
    ("wanted", "jobs"),
    [
        (PastWanted(), list(NAMES[::-1]) * 3),
        (PastWanted(job="not_hung"), ["not_hung"] * 3),
        (PastWanted(kind=Kind.P2P_DEADLOCK), ["p2p_deadlock"] * 3),
        (PastWanted(cause=Cause.DATALOADER, node="b"), ["rank_not_joined"] * 3),
        (PastWanted(cause=Cause.DATALOADER, node="nowhere"), []),
    ],
)
def test_what_fits_is_found_newest_first(store: Store, wanted: PastWanted, jobs: list[str]) -> None:
    found = search(store, wanted)
    assert [each.listed.job for each in found.diagnoses] == jobs
    assert found.next is None


def test_pages_follow_one_another_without_a_gap(store: Store) -> None:
    seen, before = [], None
    for _ in range(3):
        page = search(store, PastWanted(), limit=4, before=before)
        seen += [each.listed.id for each in page.diagnoses]
        before = page.next
    assert seen == [row.id for row in store.list()]
    assert search(store, PastWanted(), limit=4, before=before).diagnoses == ()
