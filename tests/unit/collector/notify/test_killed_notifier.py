"""A collector killed with SIGKILL at any moment between enqueue, send and mark: no alarm is lost, none comes twice.

"Twice" means: under another key, or after the receiver had it and the collector knew. A kill between the receiver's
answer and the mark leaves no way to know: the same message comes again, with the same `webhook-id` and `dedup_key`.
"""

import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from collector.keep.store import Store
from collector.notify.receivers import PagerDutyReceiver, WebhookReceiver
from shared.answer.deliveries import DeliveryState
from shared.answer.incidents import IncidentState
from tests.build.processes.nursery import Nursery
from tests.build.processes.ports import free_port
from tests.build.services.incident_receivers import PagerDutyServer, Received, ReceiverServer, served_receiver
from tests.unit.collector.keep.watched.test_incidents import draft
from tests.unit.collector.notify.files import SECRET, pagerduty_file, webhook_file

pytestmark = pytest.mark.slow

SECONDS = 90.0


class Collectors:
    """One collector after the other, on one store and one notify file."""

    def __init__(self, nursery: Nursery, place: str, file: Path) -> None:
        self._nursery, self.place = nursery, place
        self._flags: dict[str, Any] = {
            "store": place,
            "agents": "node9",
            "notify_file": str(file),
            "lease_seconds": 1.0,
        }
        self.pid = 0
        self.kills = 0

    def start(self) -> None:
        """Start the next one."""
        self.pid = self._nursery.start(listen=f"127.0.0.1:{free_port()}", **self._flags)

    def kill(self) -> None:
        """Kill the one that runs."""
        assert self._nursery.end(self.pid, signal.SIGKILL) == signal.SIGKILL
        self.kills += 1


def shorten_leases(store: Store) -> None:
    """Let the leases of who was killed end now; a test does not wait for 21 seconds each time.

    Nobody else may run: what a living collector is about to send would be sent a second time, even after its end.
    """
    with store._database.write() as connection:
        connection.exec_driver_sql("UPDATE deliveries SET until_ms = 0")


def until_told(store: Store, count: int) -> None:
    """Wait until that many messages are marked as sent."""
    deadline = time.monotonic() + SECONDS
    while len(store.deliveries.list(states=[DeliveryState.SENT], limit=count)) < count:
        assert time.monotonic() < deadline, store.deliveries.list(limit=500)
        time.sleep(0.05)


def checked(received: list[Received]) -> Counter[str]:
    """How often each message came; all are signed, and what came again is the same."""
    bodies: dict[str, bytes] = {}
    for each in received:
        Webhook(SECRET).verify(each.body, each.headers)
        assert bodies.setdefault(each.headers["webhook-id"], each.body) == each.body
    return Counter(each.headers["webhook-id"] for each in received)


def test_killed_at_each_step(nursery: Nursery, place: str, tmp_path: Path) -> None:
    """Before it is entered, when it was entered, when it was sent, and when it was answered."""
    server = ReceiverServer()
    with served_receiver(server):
        collectors = Collectors(nursery, place, webhook_file(tmp_path, server.url))
        collectors.start()
        store = Store(place)
        try:
            collectors.kill()
            store.incidents.report(draft(sequence=1), ["d"])  # the event is there, the message is not
            collectors.start()
            until_told(store, 1)
            server.before_answer = lambda _: collectors.kill() if collectors.kills == 1 else None
            store.incidents.report(draft(sequence=2), ["d"])  # killed when it was sent, and not answered yet
            deadline = time.monotonic() + SECONDS
            while collectors.kills == 1:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert len(store.deliveries.list(states=[DeliveryState.WAITING])) == 1
            shorten_leases(store)
            collectors.start()
            until_told(store, 2)
            collectors.kill()
            store.deliveries.enter("bot", WebhookReceiver.changes)
            store.incidents.report(draft(sequence=3), ["d"])
            store.deliveries.enter("bot", WebhookReceiver.changes)  # entered, and its collector is gone
            collectors.start()
            until_told(store, 3)
            collectors.kill()
        finally:
            store.close()
    came = checked(server.received)
    assert sorted(came.values()) == [1, 1, 2]  # the one that was sent while its collector was killed


def kill_many_times(nursery: Nursery, place: str, folder: Path, times: int) -> None:
    """Kill it at random moments while incidents begin and end."""
    chance = random.Random(20_261_122)
    server = PagerDutyServer()
    server.before_answer = lambda _: time.sleep(chance.uniform(0.0, 0.05))
    with served_receiver(server):
        collectors = Collectors(nursery, place, pagerduty_file(folder, server.url))
        collectors.start()
        store = Store(place)
        store.deliveries.enter("pager", PagerDutyReceiver.changes)  # it is known before anything happens
        done = threading.Event()
        keys: list[str] = []

        def live() -> None:
            number = 0
            while not done.is_set():
                found = store.incidents.report(draft(sequence=number), ["d"])
                keys.append(found.key)
                if number % 2:
                    store.incidents.resolve(found.id, note="the job goes on")
                number += 1
                time.sleep(0.05)

        living = threading.Thread(target=live)
        living.start()
        try:
            for _ in range(times):
                time.sleep(chance.uniform(0.0, 0.8))
                collectors.kill()
                shorten_leases(store)
                collectors.start()
        finally:
            done.set()
            living.join()
        ended = sum(incident.state is IncidentState.RESOLVED for incident in store.incidents.list(limit=len(keys)))
        until_told(store, len(keys) + ended)
        again = len(server.received) - len(keys) - ended
        print(f"{times} kills, {len(keys)} alarms, {ended} ends, {again} messages came twice under their key")
        collectors.kill()
        store.close()
    alerts = Counter(alert["dedup_key"] for alert in server.alerts)
    assert set(alerts) == set(keys)
    states = {alert["dedup_key"]: alert["state"] for alert in server.alerts}
    assert sum(state == "resolved" for state in states.values()) == ended
    assert again <= times * 8


def test_killed_at_random(nursery: Nursery, place: str, tmp_path: Path) -> None:
    """A few of the kills of the long test below."""
    kill_many_times(nursery, place, tmp_path, 6)


@pytest.mark.repeated
@pytest.mark.timeout(3600)
def test_killed_a_hundred_times(nursery: Nursery, place: str, tmp_path: Path) -> None:
    """At any moment."""
    kill_many_times(nursery, place, tmp_path, 100)
