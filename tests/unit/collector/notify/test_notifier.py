"""The outbox at work: incidents in a store, real servers on loopback, and what these know in the end."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from collector.keep.async_store import AsyncStore
from collector.keep.store import Store
from collector.notify import notifier as notifier_module
from collector.notify.notifier import Notifier, notifying
from shared.answer.deliveries import DeliveryState
from shared.answer.incidents import Incident, IncidentChangeKind, NewSilence, SilenceMatcher
from tests.build.processes.waiting import until
from tests.build.services.alertmanagers import running_alertmanager
from tests.build.services.incident_receivers import (
    ROUTING_KEY,
    PagerDutyServer,
    ReceiverServer,
    SlackServer,
    served_receiver,
)
from tests.build.services.stores import empty_store
from tests.unit.collector.keep.watched.test_incidents import draft
from tests.unit.collector.notify.files import (
    SECRET,
    alertmanager_file,
    pagerduty_file,
    read,
    slack_app_file,
    slack_file,
    webhook_file,
)


class Outbox:
    """A store and a notifier that works on it."""

    def __init__(self, store: Store, notifier: Notifier) -> None:
        self.store, self.notifier = store, notifier

    async def report(self, job: str = "demo", sequence: int = 7) -> Incident:
        """An incident begins."""
        return await asyncio.to_thread(self.store.incidents.report, draft(job, sequence=sequence), ["d1"])

    async def write(self, what: Callable[..., Any], *words: Any, **named: Any) -> Any:
        """Write to the store."""
        return await asyncio.to_thread(lambda: what(*words, **named))

    def states(self) -> list[tuple[str, str]]:
        """How far the messages are, oldest first."""
        return [(each.kind.value, each.state.value) for each in reversed(self.store.deliveries.list())]


@asynccontextmanager
async def outbox(folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Outbox]:
    """Notify, quickly."""
    monkeypatch.setattr(notifier_module, "STEP_SECONDS", 0.02)
    monkeypatch.setattr(notifier_module, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(notifier_module, "SILENCED_SECONDS", 0.1)
    monkeypatch.setattr(notifier_module, "_BACKLOG_SECONDS", 0.05)
    store = Store(empty_store(folder))
    async_store = AsyncStore(store)
    try:
        made = Notifier(async_store, read(file))
        async with notifying(made):
            await until(lambda: made._read_to >= 0)
            yield Outbox(store, made)
        await async_store.close()
    finally:
        store.close()


def silence(value: str) -> NewSilence:
    """A silence of one job."""
    return NewSilence(
        matchers=(SilenceMatcher(name="job", value=value),),
        startsAt="2020-01-01T00:00:00Z",
        endsAt="2999-01-01T00:00:00Z",
        createdBy="ann",
        comment="maintenance",
    )


async def test_pagerduty_follows_an_incident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triggered, acknowledged, resolved; opened again it is another alert, and a false alarm is resolved."""
    server = PagerDutyServer()
    with served_receiver(server):
        async with outbox(tmp_path, pagerduty_file(tmp_path, server.url, 'include = ["names"]'), monkeypatch) as box:
            found = await box.report()
            await until(lambda: len(server.alerts) == 1)
            (alert,) = server.alerts
            assert (alert["dedup_key"], alert["state"]) == (found.key, "triggered")
            assert alert["triggers"][0]["source"] == "node1" and alert["triggers"][0]["group"] == "demo"
            await box.report()  # seen again: nobody is told twice
            await box.write(box.store.incidents.acknowledge, found.id, by="ann")
            await until(lambda: alert["state"] == "acknowledged")
            await box.write(box.store.incidents.resolve, found.id, note="the job goes on")
            await until(lambda: alert["state"] == "resolved")
            await box.report()
            await until(lambda: len(server.alerts) == 2)
            await box.write(box.store.incidents.false_alarm, found.id)
            await until(lambda: server.alerts[1]["state"] == "resolved")
            assert len(alert["triggers"]) == 1
            await until(lambda: box.notifier.sent == {"pager": 5})


async def test_jobs_that_the_same_holds_are_one_alert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is over with the last of them; where the first is silenced, the next is told."""
    server = PagerDutyServer()
    with served_receiver(server):
        async with outbox(tmp_path, pagerduty_file(tmp_path, server.url, 'include = ["names"]'), monkeypatch) as box:

            async def held(job: str) -> Incident:
                found = draft(job).model_copy(update={"roots": ("node node1",)})
                return await asyncio.to_thread(box.store.incidents.report, found, ["d1"])

            first, second = await held("a"), await held("b")
            await until(lambda: box.states() == [("opened", "sent"), ("opened", "dropped")])
            await box.write(box.store.incidents.resolve, first.id, note="the job has died")
            await box.write(box.store.incidents.resolve, second.id, note="the job has died")
            await until(lambda: box.states() == [("opened", "sent"), ("opened", "dropped"), ("resolved", "sent")])
            assert [each["state"] for each in server.alerts] == ["resolved"]
            await box.write(box.store.silences.put, silence("c"))
            await held("c")
            await held("d")
            await until(lambda: len(server.alerts) == 2)
            assert server.alerts[1]["triggers"][0]["group"] == "d"


async def test_slack_is_told_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change is a message that Slack's own models accept."""
    server = SlackServer()
    with served_receiver(server):
        async with outbox(tmp_path, slack_file(tmp_path, server.url, 'include = ["names"]'), monkeypatch) as box:
            found = await box.report("llama <!here>")
            await box.write(box.store.incidents.resolve, found.id, note="the job has ended")
            await until(lambda: box.states() == [("opened", "sent"), ("resolved", "sent")])
    first, last = (json.loads(each.body) for each in server.received)
    assert first["text"].startswith("Hung: llama &lt;!here&gt;: rank_not_joined, rank 3 (on node1; proven;")
    assert last["text"].startswith("Resolved (the job has ended): ")


async def test_slack_app_goes_on_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows is a short reply to the first message; the end is shown in the channel, and a new begin anew."""
    server = SlackServer()
    with served_receiver(server):
        async with outbox(tmp_path, slack_app_file(tmp_path, server.url), monkeypatch) as box:
            found = await box.report("llama")
            await box.write(box.store.incidents.acknowledge, found.id, by="ada", note="on it")
            await box.write(box.store.incidents.resolve, found.id, note="it goes on")
            await box.report("llama")
            await until(lambda: [state for _, state in box.states()] == ["sent"] * 4)
    first, taken, over, again = server.posted.values()
    ts = next(iter(server.posted))
    assert ("thread_ts" in first, taken["thread_ts"], over["thread_ts"], "thread_ts" in again) == (False, ts, ts, False)
    assert (taken["reply_broadcast"], over["reply_broadcast"]) == (False, True)
    assert [block["text"]["text"] for block in taken["blocks"]][1:] == ["by: `ada`\nnote: `on it`"]


async def test_slack_app_that_may_not_write_there_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slack refuses with the status 200."""
    server = SlackServer()
    with served_receiver(server):
        file = slack_app_file(tmp_path, server.url, channel="C9")
        async with outbox(tmp_path, file, monkeypatch) as box:
            await box.report()
            await until(lambda: "channel_not_found" in "".join(each.trouble for each in box.store.deliveries.list()))


@pytest.mark.slow
async def test_alertmanager_fires_as_long_as_it_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alertmanager itself: it tells that the alert fires, once, and once that it is resolved."""
    hook = ReceiverServer()

    def told() -> list[tuple[str, str]]:
        alerts = [
            (message["status"], alert)
            for each in hook.received
            for message in [each.json()]
            for alert in message["alerts"]
        ]
        return [(status, alert["labels"].get("job", "")) for status, alert in alerts]

    with served_receiver(hook), running_alertmanager(tmp_path, hook.url) as manager:
        file = alertmanager_file(tmp_path, manager.url, 'include = ["names", "headline"]\nresend_seconds = 1')
        async with outbox(tmp_path, file, monkeypatch) as box:
            found = await box.report()
            await until(lambda: ("firing", "demo") in told())
            (alert,) = await asyncio.to_thread(manager.alerts)
            assert alert["labels"]["severity"] == "critical" and alert["labels"]["key"] == found.key
            assert alert["labels"]["host"] == "node1" and alert["annotations"]["description"] == "Hung: rank 3"
            await asyncio.sleep(6.0)  # it would have ended after four seconds
            (still,) = await asyncio.to_thread(manager.alerts)
            assert still["endsAt"] > alert["endsAt"] and still["fingerprint"] == alert["fingerprint"]
            await box.write(box.store.incidents.resolve, found.id, note="the job has ended")
            await until(lambda: ("resolved", "demo") in told())
            assert told() == [("firing", "demo"), ("resolved", "demo")]
            assert box.states() == [("opened", "sent"), ("resolved", "sent")]
            await box.report("other")
            await until(lambda: ("firing", "other") in told())
        await until(lambda: ("resolved", "other") in told())  # no collector is left


async def test_receiver_that_is_down_gets_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Tried again, later each time; what failed is counted; nothing secret is in the log."""
    caplog.set_level(logging.INFO)
    server = PagerDutyServer()
    server.next_answers = [(503, {}, b""), (500, {}, b""), (429, {"Retry-After": "0"}, b"")]
    with served_receiver(server):
        async with outbox(tmp_path, pagerduty_file(tmp_path, server.url), monkeypatch) as box:
            await box.report()
            await until(lambda: box.states() == [("opened", "sent")])
            await until(lambda: (box.notifier.failed["pager"], box.notifier.sent["pager"]) == (3, 1))
    assert len({each.json()["dedup_key"] for each in server.received}) == 1
    assert "HTTP 503" in caplog.text and ROUTING_KEY not in caplog.text and server.url not in caplog.text


async def test_given_up_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At once where the receiver wants no more, else after its hours: a log line, a count, an event."""
    server = ReceiverServer()
    with served_receiver(server):
        server.next_answers = [(410, {}, b"")]
        file = webhook_file(tmp_path, server.url, "give_up_hours = 0.0001")
        async with outbox(tmp_path, file, monkeypatch) as box:
            gone = await box.report()
            await until(lambda: box.states() == [("opened", "given_up")])
            assert len(server.received) == 1
            server.next_answers = [(500, {}, b"")] * 100
            slow = await box.report("other")
            await until(lambda: box.states().count(("opened", "given_up")) == 2)
            assert box.notifier.given_up["bot"] == 2
            for incident in (gone, slow):
                history = box.store.incidents.get(incident.id).history
                assert [c.kind for c in history][-1] is IncidentChangeKind.UNDELIVERED
            (first,) = box.store.deliveries.list(incident=gone.id, states=[DeliveryState.GIVEN_UP])
            assert first.trouble == "HTTP 410, it wants no more"
    assert [r.levelno for r in caplog.records if "given up" in r.message] == [logging.ERROR] * 2


async def test_silence_holds_back_what_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent while it holds; when it ends what still hangs is, and what is over is not.

    What was told before the silence is told to its end.
    """
    server = ReceiverServer()
    with served_receiver(server):
        async with outbox(tmp_path, webhook_file(tmp_path, server.url), monkeypatch) as box:
            waiting = partial(box.store.deliveries.list, states=[DeliveryState.WAITING])
            before = await box.report("noisy", 1)
            await until(lambda: len(server.received) == 1)
            made = await box.write(box.store.silences.put, silence("noisy"))
            held, over = await box.report("noisy", 2), await box.report("noisy", 3)
            await box.write(box.store.incidents.resolve, before.id, note="the job goes on")
            await box.write(box.store.incidents.resolve, over.id, note="the job goes on")
            await until(lambda: box.states().count(("opened", "dropped")) == 1)
            await until(lambda: len(server.received) == 2)
            await until(lambda: [w.incident for w in waiting()] == [held.id] and made.id in waiting()[0].trouble)
            assert waiting()[0].attempts == 0
            await box.write(box.store.silences.expire, made.id)
            await until(lambda: len(server.received) == 3)
    told = [(each.json()["subject"], each.json()["data"]["change"]) for each in server.received]
    assert told == [(before.id, "opened"), (before.id, "resolved"), (held.id, "opened")]
    for each in server.received:
        Webhook(SECRET).verify(each.body, each.headers)


async def test_two_collectors_send_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share a store and have the same file."""
    server = ReceiverServer()
    with served_receiver(server):
        file = webhook_file(tmp_path, server.url)
        async with outbox(tmp_path, file, monkeypatch) as one, outbox(tmp_path, file, monkeypatch) as two:
            for number in range(20):
                await (one, two)[number % 2].report("demo", number)
            await until(lambda: one.states().count(("opened", "sent")) == 20)
            await until(lambda: one.notifier.sent["bot"] + two.notifier.sent["bot"] == 20)
    assert len({each.headers["webhook-id"] for each in server.received}) == len(server.received) == 20


async def test_slow_receiver_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not answer, and one that does."""
    slow, quick = ReceiverServer(), ReceiverServer()
    slow.before_answer = lambda _: time.sleep(3.0)
    with served_receiver(slow), served_receiver(quick):
        file = webhook_file(tmp_path, slow.url)
        more = webhook_file(tmp_path, quick.url, name="other").read_text().partition("\n")[2]
        file = webhook_file(tmp_path, slow.url)
        file.write_text(file.read_text() + more)
        async with outbox(tmp_path, file, monkeypatch) as box:
            await box.report()
            began = time.monotonic()
            await until(lambda: quick.received)
            assert time.monotonic() - began < 2.5
            await until(lambda: slow.received)
