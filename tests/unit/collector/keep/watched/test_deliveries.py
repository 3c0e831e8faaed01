"""The outbox, on each kind of database: entered once, taken by one, in order, given up aloud."""

import time
from collections.abc import Iterable

from collector.keep.store import Store
from collector.keep.watched.deliveries import Claimed, Deliveries
from collector.notify.receivers import AlertmanagerReceiver, PagerDutyReceiver
from shared.answer.deliveries import DeliveryState
from shared.answer.incidents import Incident, IncidentChangeKind
from tests.unit.collector.conftest import Opener
from tests.unit.collector.keep.watched.test_incidents import draft, kinds

CHANGES = PagerDutyReceiver.changes
PAGER = "pager"


def entered(store: Store, receiver: str = PAGER, changes: Iterable[IncidentChangeKind] = CHANGES) -> Deliveries:
    """The outbox of a store after all that happened was entered for a receiver."""
    while store.deliveries.enter(receiver, changes):
        pass
    return store.deliveries


def claimed(store: Store, receiver: str = PAGER) -> list[Claimed]:
    """What a collector may send to it now."""
    return list(store.deliveries.claim([receiver], most=10))


def states(store: Store) -> list[tuple[str, str]]:
    """What all messages are about and how far they are, oldest first."""
    return [(each.kind.value, each.state.value) for each in reversed(store.deliveries.list())]


def begun(store: Store, **of: object) -> Incident:
    """An incident that began after the receiver was known."""
    entered(store)
    return store.incidents.report(draft(**of), ["d1", "d2"])  # type: ignore[arg-type]


def test_replicas_enter_a_message_once_and_one_of_them_sends_it(opened: Opener) -> None:
    """Two collectors with the same file."""
    one, two = opened(), opened()
    begun(one)
    entered(one)
    entered(two)
    (first,) = claimed(one)
    assert claimed(two) == [] and claimed(one) == []
    assert (first.event.kind, first.is_live, first.is_opening) == (IncidentChangeKind.OPENED, True, True)
    one.deliveries.sent(first)
    assert states(two) == [("opened", "sent")]
    assert claimed(two) == []


def test_lease_that_ends_is_taken_over(opened: Opener) -> None:
    """The collector that had it was killed: the message has the same id, and is the same."""
    dead = opened(lease_seconds=1.0)
    dead.deliveries._hold_ms = 5_000
    other = opened()
    begun(dead)
    entered(dead)
    (lost,) = claimed(dead)
    assert claimed(other) == []
    time.sleep(5.2)
    (again,) = claimed(other)
    assert (again.id, again.event) == (lost.id, lost.event)
    other.deliveries.sent(again)
    dead.deliveries.postpone(lost, 0.0, "late", failed=True)
    assert states(other) == [("opened", "sent")]


def test_messages_about_one_incident_keep_their_order(opened: Opener) -> None:
    """What resolves an alert never overtakes what raises it; another incident does not wait."""
    store = opened()
    id = begun(store).id
    other = store.incidents.report(draft("other"), ["d"]).id
    store.incidents.acknowledge(id, by="ann")
    store.incidents.resolve(id, note="the job has ended")
    entered(store)
    first, aside = sorted(claimed(store), key=lambda each: each.event.id)
    assert (first.event.incident.id, aside.event.incident.id) == (id, other)
    assert not first.is_live
    store.deliveries.postpone(first, 0.0, "HTTP 503", failed=True)
    (again,) = claimed(store)
    assert (again.id, again.attempts) == (first.id, 1)
    store.deliveries.sent(again)
    (second,) = claimed(store)
    assert second.event.kind is IncidentChangeKind.ACKNOWLEDGED and second.opening == first.event
    store.deliveries.sent(second)
    (third,) = claimed(store)
    assert third.event.kind is IncidentChangeKind.RESOLVED


def test_new_receiver_learns_of_what_is_open(opened: Opener) -> None:
    """And not of what is over."""
    store = opened()
    over = store.incidents.report(draft("over"), ["d"]).id
    open_now = store.incidents.report(draft("open"), ["d"]).id
    store.incidents.resolve(over, note="ended")
    store.incidents.acknowledge(open_now)
    entered(store)
    assert [(each.kind.value, each.incident) for each in reversed(store.deliveries.list())] == [
        ("opened", open_now),
        ("acknowledged", open_now),
    ]


def test_repeated_until_another_message_follows(opened: Opener) -> None:
    """As Alertmanager wants it."""
    store, changes = opened(), AlertmanagerReceiver.changes
    entered(store, changes=changes)
    id = store.incidents.report(draft(), ["d"]).id
    entered(store, changes=changes)
    (first,) = claimed(store)
    store.deliveries.sent(first, again_seconds=0.0)
    (again,) = claimed(store)
    assert again.is_repeat and again.id == first.id
    store.deliveries.sent(again, again_seconds=0.0)
    store.incidents.acknowledge(id)
    store.incidents.resolve(id, note="ended")
    entered(store, changes=changes)
    last = claimed(store)
    assert len(last) == 1
    if last[0].is_repeat:
        store.deliveries.postpone(last[0], 60.0, "", failed=False)
        last = claimed(store)
    store.deliveries.sent(last[0])
    assert claimed(store) == []
    assert states(store) == [("opened", "sent"), ("resolved", "sent")]


def test_given_up_is_said_in_the_history_and_in_an_event(opened: Opener) -> None:
    """And listed with its reason; later messages of the incident are tried."""
    store = opened()
    id = begun(store).id
    entered(store)
    (lost,) = claimed(store)
    store.deliveries.give_up(lost, "HTTP 410, it wants no more\0")
    assert kinds(store.incidents)[-1] is IncidentChangeKind.UNDELIVERED
    assert "pager was not notified (opened): HTTP 410" in store.incidents.get(id).history[-1].note
    (listed,) = store.deliveries.list(states=[DeliveryState.GIVEN_UP], receiver=PAGER, incident=id)
    assert listed.trouble.startswith("HTTP 410") and listed.ended_at is not None and listed.due_at is None
    assert store.deliveries.undelivered([id, "other"]) == {id: (PAGER,)}
    store.incidents.resolve(id, note="ended")
    entered(store)
    assert [each.event.kind.value for each in claimed(store)] == ["resolved"]


def test_dropped_with_what_follows(opened: Opener) -> None:
    """Over while it was silenced: there is nothing to report."""
    store = opened()
    id = begun(store).id
    store.incidents.resolve(id, note="ended")
    entered(store)
    (first,) = claimed(store)
    store.deliveries.drop(first, "silenced")
    assert states(store) == [("opened", "dropped"), ("resolved", "dropped")]
    assert claimed(store) == []


def test_backlog_is_counted(opened: Opener) -> None:
    """What waits, and what of it has failed."""
    store = opened()
    begun(store)
    store.incidents.report(draft("other"), ["d"])
    entered(store)
    one, _ = claimed(store)
    store.deliveries.postpone(one, 60.0, "HTTP 500", failed=True)
    assert store.deliveries.backlog() == {PAGER: (2, 1)}
