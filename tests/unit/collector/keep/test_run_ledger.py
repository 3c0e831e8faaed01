"""The ledger: one replica per job, by the database's word; silence costs the job, never a diagnosis."""

import threading
from uuid import UUID

import pytest
from sqlalchemy import update

from collector.align.expected import Expected
from collector.keep.database import Database
from collector.keep.run_ledger import Interrupted, RunState, Unfinished
from collector.keep.tables import runs
from collector.keep.url import parse_store_place
from collector.question import Stage, Step
from shared.answer.diagnosis import Diagnosis
from shared.errors import InvalidInput, NotFound, UnhangError
from tests.unit.collector.conftest import Opener
from tests.unit.collector.keep.test_store import NOW_NS, made

LEASE_SECONDS = 600.0


def let_pass(place: str, seconds: float) -> None:
    """Let so much time pass by the clock of the database, as far as leases can tell."""
    database = Database(parse_store_place(place))
    with database.write() as connection:
        connection.execute(update(runs).values(alive_until_ms=runs.c.alive_until_ms - int(seconds * 1000)))
    database.close()


def run(number: int, job: str | None = "a") -> RunState:
    """A run that begins."""
    return RunState(id=str(UUID(int=number)), job=job, started_at="2026-11-21T10:00:00.000Z")


def test_first_has_the_job_and_the_second_is_told_whose_it_is(opened: Opener) -> None:
    """Two replicas, one job: the second gets the first one's run, with how far it is. Other jobs are free."""
    one, two = opened().ledger, opened().ledger
    first = run(1).model_copy(update={"step": Step(stage=Stage.LOOKING, look=1, asked=2)})
    assert one.hold(first) == first
    assert two.hold(run(2)) == first
    assert two.find(first.id) == first
    assert two.hold(run(3, job="b")).job == "b"
    assert two.hold(run(4, job=None)).job is None
    assert one.hold(run(5, job=None)).id == run(4).id


def test_one_of_many_gets_the_job(opened: Opener) -> None:
    """However close together they ask, all agree on one."""
    stores = [opened() for _ in range(6)]
    told: list[str] = []
    gate = threading.Barrier(len(stores))

    def ask(number: int) -> None:
        gate.wait()
        told.append(stores[number].ledger.hold(run(number)).id)

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(len(stores))]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(told) == len(stores)
    assert len(set(told)) == 1


def test_who_is_silent_for_too_long_loses_the_job(opened: Opener, place: str) -> None:
    """After the lease the run is told as interrupted, and the next one begins; until then it is renewed."""
    one, two = (opened(lease_seconds=LEASE_SECONDS).ledger for _ in range(2))
    one.hold(run(1))
    for _ in range(3):
        let_pass(place, LEASE_SECONDS / 2)
        one.hold(run(1))
        assert two.hold(run(2)).id == run(1).id
    let_pass(place, LEASE_SECONDS * 1.5)
    with pytest.raises(Interrupted, match="ended before it was ready"):
        two.find(run(1).id)
    assert two.hold(run(2)).id == run(2).id
    assert one.hold(run(1)).id == run(2).id


def test_who_was_given_up_and_not_replaced_goes_on(opened: Opener, place: str) -> None:
    """A collector that was stopped for a while finds its run as it left it where nobody wanted the job."""
    one, two = (opened(lease_seconds=LEASE_SECONDS).ledger for _ in range(2))
    one.hold(run(1))
    let_pass(place, LEASE_SECONDS * 1.5)
    assert one.hold(run(1)).id == run(1).id
    assert two.find(run(1).id) is not None


def test_kept_diagnosis_ends_its_run(opened: Opener) -> None:
    """The diagnosis stands in the run's place at once, and a renewal that comes late does not bring the run back."""
    store, other = opened(), opened()
    diagnosis = made(NOW_NS)
    state = RunState(id=diagnosis.id, job="a")
    store.ledger.hold(state)
    store.save(diagnosis, Expected(), [])
    store.ledger.hold(state)
    assert other.ledger.find(diagnosis.id) is None
    assert other.whereabouts(diagnosis.id) == diagnosis
    assert other.ledger.hold(run(7)).id == run(7).id


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotFound("no agent knows a job 'x'", advice="look again"), NotFound),
        (InvalidInput("two jobs are there"), InvalidInput),
        (Unfinished("KeyError"), Unfinished),
    ],
)
def test_failure_is_told_by_every_replica(opened: Opener, error: UnhangError, kind: type[UnhangError]) -> None:
    """Kind, words and advice are what the one that failed says itself; the job is free."""
    one, two = opened(), opened()
    one.ledger.hold(run(1))
    one.ledger.fail(run(1).id, error)
    with pytest.raises(kind) as caught:
        two.whereabouts(run(1).id)
    assert (str(caught.value), caught.value.advice) == (str(error), error.advice)
    assert two.ledger.hold(run(2)).id == run(2).id


def test_whoever_stops_leaves_its_jobs_to_others_at_once(opened: Opener) -> None:
    """Nobody waits for the lease of a collector that has said goodbye."""
    one, two = opened().ledger, opened().ledger
    one.hold(run(1))
    one.hold(run(2, job="b"))
    two.hold(run(3, job="c"))
    one.interrupt()
    assert two.hold(run(4)).id == run(4).id
    with pytest.raises(Interrupted):
        two.find(run(2).id)
    assert two.find(run(3).id) is not None


def test_failures_are_bounded(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions about jobs that do not exist fill no disk; runs that go on are never let go."""
    monkeypatch.setattr("collector.keep.run_ledger._MOST_ENDED", 3)
    ledger = opened().ledger
    ledger.hold(run(0, job="old"))
    for number in range(1, 9):
        ledger.hold(run(number, job="x"))
        ledger.fail(run(number, job="x").id, NotFound(str(number)))
    told = []
    for number in range(9):
        try:
            told.append(ledger.find(run(number).id))
        except NotFound as error:
            told.append(str(error))
    assert told[0] is not None
    assert told[1:] == [None] * 5 + ["6", "7", "8"]


def test_unknown_id_is_neither(opened: Opener) -> None:
    """No run, no diagnosis; a NUL in an id is an id that is not there."""
    store = opened()
    assert store.whereabouts("nix") is None
    assert store.whereabouts("nix\0") is None
    assert not isinstance(store.whereabouts(run(1).id), Diagnosis)
