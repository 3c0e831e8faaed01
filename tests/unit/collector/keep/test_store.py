"""The store: what was saved is there after a restart and a SIGKILL, within the retention's bounds."""

import gzip
import os
import sqlite3
import threading
import zlib
from pathlib import Path

import pytest

from collector.align.expected import Expected, Unanswered
from collector.gather.judge_and_stamp import new_id, rfc3339
from collector.keep.database import StoreTrouble
from collector.keep.store import Retention, Store
from shared.answer.diagnosis import Diagnosis, Finding, Link, LinkEnd
from shared.answer.words import Kind, Verdict
from shared.errors import InvalidSettings, NotFound
from shared.missing import Missing, Reason
from shared.wire.snapshot import NodeSnapshot
from shared.wire.survey_read import SurveyReader
from shared.wire.survey_write import survey_of
from tests.build.agents.fake_agents import case_ranks
from tests.unit.collector.conftest import Opener

DAY_NS = 86_400 * 10**9
NOW_NS = 1_795_000_000 * 10**9


def made(at_ns: int, *, job: str | None = "a") -> Diagnosis:
    """A diagnosis of some moment."""
    return Diagnosis(
        id=new_id(at_ns), job=job, made_at=rfc3339(at_ns), verdict=Verdict.CANNOT_TELL, headline=f"at {at_ns}"
    )


def save(store: Store, *times_ns: int, job: str | None = "a") -> list[str]:
    """Keep a diagnosis for each time, and return their ids."""
    ids = []
    for at_ns in times_ns:
        diagnosis = made(at_ns, job=job)
        store.save(diagnosis, Expected(), [])
        ids.append(diagnosis.id)
    return ids


def test_what_a_job_was_found_hung_with_last(opened: Opener) -> None:
    """Until it is found otherwise while it runs; how it died is no matter, nor what other jobs did."""
    found = Finding(kind=Kind.RANK_NOT_JOINED, certainty="proven")
    history = [("a", Verdict.HUNG), ("b", Verdict.NOT_HUNG), ("a", Verdict.CANNOT_TELL), ("a", Verdict.DIED)]
    history.append(("a", Verdict.NOT_HUNG))
    store = opened()
    for number, (job, verdict) in enumerate(history):
        told = {"verdict": verdict, "findings": (found,), "user": "7"}
        store.save(made(NOW_NS + number * 10**6, job=job).model_copy(update=told), Expected(), [])
        hung = store.found_hung("a")
        assert (hung is None) is (number == 4) and store.found_hung("b") is None
        assert hung is None or (hung.made_at, hung.user, hung.findings) == (rfc3339(NOW_NS), "7", (found,))


def test_everything_comes_back(opened: Opener) -> None:
    """Diagnosis, question and snapshots are after a restart what they were, in their order."""
    finding = Finding(
        kind=Kind.STUCK_TOGETHER,
        certainty="suspected",
        links=(Link(from_=LinkEnd(rank=0, host="n1"), to=LinkEnd(rank=1)),),
    )
    diagnosis = made(NOW_NS).model_copy(update={"findings": (finding,)})
    silent = Unanswered(host="n3", missing=Missing(source="n3", reason=Reason.TIMED_OUT), ranks="4-7")
    expected = Expected(job="a", unanswered=(silent,))
    looks = [NodeSnapshot(host=host, ranks=case_ranks("missing_rank2", (0,), host=host)) for host in ("n2", "n1")]
    store = opened()
    store.save(diagnosis, expected, looks)
    store.close()

    kept = opened().kept(diagnosis.id)
    assert kept.diagnosis == diagnosis
    assert kept.expected == expected
    assert [look.model_dump() for look in kept.snapshots] == [look.model_dump() for look in looks]


def test_newest_first_and_page_by_page(opened: Opener) -> None:
    """Pages follow each other without gaps or repetitions, also while new diagnoses arrive."""
    store = opened()
    ids = save(store, *(NOW_NS + i * 10**6 for i in range(7)))
    first = store.list(limit=3)
    save(store, NOW_NS + DAY_NS)
    second = store.list(limit=3, before=first[-1].id)
    third = store.list(limit=3, before=second[-1].id)
    assert [listed.id for page in (first, second, third) for listed in page] == ids[::-1]


def test_ids_of_one_millisecond_are_in_order() -> None:
    """Ids made microseconds apart sort as they were made."""
    ids = [new_id(NOW_NS + microsecond * 1000) for microsecond in range(1000)]
    assert ids == sorted(ids)


@pytest.mark.parametrize(
    ("retention", "left"),
    [(Retention(most_diagnoses=3), 3), (Retention(most_days=2.5), 3), (Retention(most_bytes=1), 1)],
    ids=["count", "days", "bytes"],
)
def test_oldest_are_let_go(opened: Opener, retention: Retention, left: int) -> None:
    """Whichever bound is reached, the oldest go and the newest stay; the very last one always does."""
    store = opened(retention=retention)
    ids = save(store, *(NOW_NS + day * DAY_NS for day in range(10)))
    assert [listed.id for listed in store.list()] == ids[::-1][:left]
    with pytest.raises(NotFound):
        store.diagnosis(ids[0])


def test_snapshots_go_with_their_diagnosis_and_the_file_shrinks(tmp_path: Path) -> None:
    """What is let go takes no room."""
    file = tmp_path / "store.sqlite3"
    store = Store(file, retention=Retention(most_diagnoses=50))
    look = NodeSnapshot(
        host="n", missing=tuple(Missing(source=os.urandom(500).hex(), reason=Reason.GONE) for _ in range(200))
    )
    for i in range(50):
        store.save(made(NOW_NS + i * 10**6), Expected(), [look])
    store.close()
    large = file.stat().st_size
    store = Store(file, retention=Retention(most_diagnoses=2))
    save(store, NOW_NS + DAY_NS)
    store.close()
    assert file.stat().st_size < large / 5


def test_file_is_private(tmp_path: Path) -> None:
    """Stacks and logs are for the service's user alone."""
    file = tmp_path / "state" / "store.sqlite3"
    Store(file).close()
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0


def test_unusable_stores(tmp_path: Path) -> None:
    """A file that is no database, and a place where nothing can be written: one sentence, with advice."""
    (tmp_path / "text").write_text("hello\n" * 1000)
    for path in (tmp_path / "text", Path("/proc/nix/store.sqlite3")):
        with pytest.raises(InvalidSettings, match="cannot be used") as caught:
            Store(path)
        assert caught.value.advice


def test_damaged_row_does_not_hide_the_others(tmp_path: Path) -> None:
    """One diagnosis that can no longer be read is an error of its own; the list and the rest stand."""
    store = Store(tmp_path / "store.sqlite3")
    first, second = save(store, NOW_NS, NOW_NS + 10**6)
    with sqlite3.connect(tmp_path / "store.sqlite3") as raw:
        raw.execute("UPDATE diagnoses SET body = X'00' WHERE id = ?", (first,))
    raw.close()
    with pytest.raises(InvalidSettings, match="damaged"):
        store.diagnosis(first)
    assert store.diagnosis(second).id == second
    assert len(store.list()) == 2


def test_replicas_let_go_side_by_side(opened: Opener) -> None:
    """Several that save at once into a full store stand in each other's way neither by locks nor by deleting twice."""
    stores = [opened(retention=Retention(most_diagnoses=3)) for _ in range(4)]
    failed: list[BaseException] = []

    def work(store: Store, first_ns: int) -> None:
        try:
            save(store, *(first_ns + i * 10**6 for i in range(15)))
        except StoreTrouble as trouble:
            failed.append(trouble)

    threads = [threading.Thread(target=work, args=(store, NOW_NS + n)) for n, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    save(stores[0], NOW_NS + DAY_NS)
    assert failed == []
    assert stores[1].size()[0] == 3


def test_looks_are_kept_as_agents_sent_them(opened: Opener) -> None:
    """Gzipped or packed here, a snapshot or a survey: what was looked at comes back."""
    look = NodeSnapshot(host="node1", taken_at_ns=NOW_NS, ranks=case_ranks("missing_rank2", (0,), host="node1"))
    survey = survey_of(look).model_dump_json().encode()
    packed = [gzip.compress(look.model_dump_json().encode()), zlib.compress(survey)]
    diagnosis = made(NOW_NS)
    store = opened()
    store.save(diagnosis, Expected(), [look, look], packed=packed)
    whole, brief = store.kept(diagnosis.id).snapshots
    assert whole == look
    assert brief == SurveyReader().snapshot_of(survey_of(look))


def test_those_that_nobody_asked_for_push_out_none_that_somebody_did(opened: Opener) -> None:
    """Each kind has its own bound, and what waits to become an incident stays whatever else comes."""
    store = opened(retention=Retention(most_diagnoses=3, most_unasked=2))
    asked = save(store, NOW_NS, NOW_NS + 1_000_000)
    suspected = made(NOW_NS + 2_000_000)
    store.save(suspected, Expected(), [], asked=False)
    assert store.watches.hold("a@1001")
    store.watches.suspect("a@1001", "0" * 32, suspected.id)
    unasked = [made(NOW_NS + (3 + at) * 1_000_000) for at in range(6)]
    for diagnosis in unasked:
        store.save(diagnosis, Expected(), [], asked=False)
    assert [each.id for each in store.list()] == [unasked[5].id, unasked[4].id, suspected.id, *reversed(asked)]
    more = save(store, *(NOW_NS + at * 1_000_000 for at in range(20, 24)))
    left = [each.id for each in store.list()]
    assert left == [*reversed(more[1:]), unasked[5].id, unasked[4].id, suspected.id]


def test_bytes_that_unasked_ones_take_are_a_quarter_at_most(opened: Opener) -> None:
    """Large jobs that are watched leave room for what people ask."""
    store = opened()
    ids = save(store, *(NOW_NS + at * 1_000_000 for at in range(8)))
    count, size = store.size()
    store.close()
    store = opened(retention=Retention(most_bytes=size // count * 12))
    for at in range(8, 20):
        store.save(made(NOW_NS + at * 1_000_000), Expected(), [], asked=False)
    left = [each.id for each in store.list()]
    assert left[-8:] == list(reversed(ids))
    assert len(left) in (10, 11)
