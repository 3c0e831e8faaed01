"""Tells receivers of incidents: events in, messages out, at least once each and mostly exactly once.

1. Events are entered into the outbox for each receiver (`collector/keep/watched/deliveries.py`).
2. What is due is taken. What begins an incident waits as long as a silence matches; if the incident is over by then, it
   is dropped with what follows it. So is what is part of an incident that the receiver has been told of. What a
   receiver was told of already is told to its end, silenced or not.
3. What is not delivered is tried again, later each time, and given up aloud after `give_up_hours`.
4. Alertmanager is told again and again while an incident goes on.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

from collector.concurrency.tasks import end, in_background, log_failure
from collector.detect.silences import silenced_by
from collector.keep.async_store import AsyncStore
from collector.keep.database import StoreTrouble
from collector.keep.watched.deliveries import Backlog, Claimed
from collector.notify.destinations import make_receiver_client
from collector.notify.links import links_of
from collector.notify.notice import Notice, make_notice
from collector.notify.notify_file import NotifyFile
from collector.notify.outgoing import NotDelivered
from collector.notify.receivers import AlertmanagerReceiver, Include, Receiver
from collector.notify.send import compose, send
from shared.answer.deliveries import DeliveryState
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import Silence
from shared.errors import InvalidSettings, NotFound, UnhangError

STEP_SECONDS = 0.5
SILENCED_SECONDS = 5.0
"""Between two looks at whether a silence still holds."""
FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 300.0
_JITTER = 0.2
_MOST_AT_ONCE = 8
_BACKLOG_SECONDS = 5.0
_COME_BACK_SECONDS = 5.0
_STOP_SECONDS = 2.0
_MARKED_TIMES = 8
_MARKED_PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Notifier:
    """The outbox at work, for the receivers of one notify file."""

    def __init__(self, async_store: AsyncStore, file: NotifyFile) -> None:
        """Raises InvalidSettings where a receiver's authorities cannot be used."""
        self.sent: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.given_up: Counter[str] = Counter()
        self.backlog: dict[str, Backlog] = {}
        self.names = tuple(file.receivers)
        self.page_url = file.page_url
        self.links = file.links
        self._async_store = async_store
        self._store = async_store.store
        self._file = file
        self._destinations = file.destinations
        self._clients = {
            name: make_receiver_client(self._destinations, r.ca_file) for name, r in file.receivers.items()
        }
        self._sending: set[asyncio.Task[None]] = set()
        self._read_to = -1
        self._counted = float("-inf")

    async def step(self) -> None:
        """Enter what has happened, and begin to send what is due."""
        newest = await self._async_store.ask(self._store.incidents.last_event)
        if newest != self._read_to:
            for name, receiver in self._file.receivers.items():
                while await self._async_store.note(self._store.deliveries.enter, name, receiver.changes):
                    pass
            self._read_to = newest
        if (room := _MOST_AT_ONCE - len(self._sending)) > 0:
            for claimed in await self._async_store.note(self._store.deliveries.claim, self.names, most=room):
                task = asyncio.create_task(self._handle(claimed), name="delivery")
                self._sending.add(task)
                task.add_done_callback(self._end_one)
        if time.monotonic() - self._counted >= _BACKLOG_SECONDS:
            self.backlog = await self._async_store.ask(self._store.deliveries.backlog)
            self._counted = time.monotonic()

    async def keep_on(self) -> None:
        """Step until cancelled."""
        while True:
            try:
                await self.step()
            except StoreTrouble as trouble:
                _log.debug("the store cannot be used: %s", trouble)
            except UnhangError as error:
                _log.error("messages wait: %s", error)
                await asyncio.sleep(_COME_BACK_SECONDS)
            await asyncio.sleep(STEP_SECONDS)

    async def stop(self) -> None:
        """Let attempts end that are under way, for a moment; the rest is for other replicas, or the next start."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=_STOP_SECONDS)
        await end(*self._sending)  # what is cut off may have arrived: it is sent again once its lease has ended
        for client in self._clients.values():
            await client.aclose()

    async def _handle(self, claimed: Claimed) -> None:
        """See one message through. Where the store fails now, its lease ends, and it is sent again."""
        receiver = self._file.receivers[claimed.receiver]
        try:
            if await self._is_held_back(claimed):
                return
            again_seconds = None
            if isinstance(receiver, AlertmanagerReceiver) and claimed.is_opening and claimed.is_live:
                again_seconds = receiver.resend_seconds
            try:
                reference = await self._send(claimed, receiver)
            except (NotDelivered, InvalidSettings) as error:
                await self._note_failure(claimed, receiver, error)
                return
            if not claimed.is_repeat:
                self.sent[claimed.receiver] += 1
                _log.info(
                    "%s was notified of incident %s: %s",
                    claimed.receiver,
                    claimed.event.incident.id,
                    claimed.event.kind,
                )
            await self._mark_sent(claimed, again_seconds, reference)
        except StoreTrouble as trouble:
            _log.warning("how the message to %s went is not kept: %s", claimed.receiver, trouble)

    async def _mark_sent(self, claimed: Claimed, again_seconds: float | None, reference: str) -> None:
        """Mark it, again and again where the store fails: what is not marked is sent once more."""
        mark = partial(self._store.deliveries.sent, claimed, again_seconds=again_seconds, reference=reference)
        for _ in range(_MARKED_TIMES - 1):
            try:
                await self._async_store.note(mark)
                return
            except StoreTrouble:
                await asyncio.sleep(_MARKED_PAUSE_SECONDS)
        await self._async_store.note(mark)

    async def _is_held_back(self, claimed: Claimed) -> bool:
        """Note what is not to be sent now (step 2)."""
        if claimed.is_repeat:
            if not claimed.is_live:
                await self._async_store.note(self._store.deliveries.sent, claimed)
            return not claimed.is_live
        if not claimed.is_opening:
            return False
        incident = claimed.incident or claimed.event.incident
        silences = await self._async_store.ask(self._store.silences.list)
        ids = silenced_by(silences, incident.labels)
        if not ids:
            return incident.part_of is not None and await self._is_part_of(claimed, incident.part_of, silences)
        why = f"silenced by {', '.join(ids)}"
        if claimed.is_live:
            await self._async_store.note(self._store.deliveries.postpone, claimed, SILENCED_SECONDS, why, failed=False)
        else:
            await self._async_store.note(self._store.deliveries.drop, claimed, f"over while {why}")
        return True

    async def _is_part_of(self, claimed: Claimed, first: str, silences: tuple[Silence, ...]) -> bool:
        """Is the receiver told of the first job that the same holds? Else the message about this one has to go out."""
        try:
            known = await self._async_store.ask(self._store.incidents.get, first)
        except NotFound:
            return False
        told = await self._async_store.ask(self._store.deliveries.opening, claimed.receiver, first)
        if not known.is_live or silenced_by(silences, known.labels):
            return False
        if told is DeliveryState.WAITING:
            why = f"the message about incident {first} comes first"
            await self._async_store.note(self._store.deliveries.postpone, claimed, SILENCED_SECONDS, why, failed=False)
        elif told in (DeliveryState.SENT, DeliveryState.REPEATING):
            await self._async_store.note(self._store.deliveries.drop, claimed, f"part of incident {first}")
        return told in (DeliveryState.WAITING, DeliveryState.SENT, DeliveryState.REPEATING)

    async def _send(self, claimed: Claimed, receiver: Receiver) -> str:
        notice = await self._notice(claimed, receiver)
        source = self._file.page_url or "/unhang"
        outgoing = compose(receiver, notice, source=source, follows=claimed.follows)
        return await send(self._clients[claimed.receiver], outgoing, self._destinations, needs_tls=receiver.needs_tls)

    async def _notice(self, claimed: Claimed, receiver: Receiver) -> Notice:
        event = claimed.event
        if claimed.is_repeat and claimed.incident is not None:
            event = event.model_copy(update={"incident": claimed.incident})
        diagnosis = None
        if receiver.include & {Include.STACKS, Include.LINES}:
            diagnosis = await self._diagnosis(event.incident.diagnoses)
        incident = event.incident
        if incident.members:
            incident = incident.with_holds(await self._async_store.ask(self._store.incidents.held, incident.members))
        incident = incident.model_copy(update={"links": links_of(self.links, incident, datetime.now(UTC))})
        event = event.model_copy(update={"incident": incident})
        return make_notice(event, claimed.opening, receiver.include, diagnosis=diagnosis, page_url=self._file.page_url)

    async def _diagnosis(self, ids: tuple[str, ...]) -> Diagnosis | None:
        try:
            return await self._async_store.ask(self._store.diagnosis, ids[-1]) if ids else None
        except UnhangError as error:
            _log.info("a message goes without its diagnosis: %s", error)
            return None

    async def _note_failure(self, claimed: Claimed, receiver: Receiver, error: UnhangError) -> None:
        self.failed[claimed.receiver] += 1
        why, about = str(error), claimed.event.incident.id
        is_final = isinstance(error, NotDelivered) and error.is_final
        if is_final or (claimed.age_seconds > receiver.give_up_hours * 3600.0 and not claimed.is_repeat):
            self.given_up[claimed.receiver] += 1
            _log.error("%s is not notified of incident %s, given up: %s", claimed.receiver, about, why)
            await self._async_store.note(self._store.deliveries.give_up, claimed, why)
            return
        pause = _pause(claimed, receiver, error)
        level = logging.WARNING if claimed.attempts == 0 else logging.INFO
        _log.log(level, "%s was not notified of incident %s, again in %.0f s: %s", claimed.receiver, about, pause, why)
        await self._async_store.note(self._store.deliveries.postpone, claimed, pause, why, failed=True)

    def _end_one(self, task: "asyncio.Task[None]") -> None:
        self._sending.discard(task)
        log_failure(task, "a delivery has failed")


def _pause(claimed: Claimed, receiver: Receiver, error: UnhangError) -> float:
    """Return how long to wait: longer each time, or as long as the receiver says."""
    longest = LONGEST_PAUSE_SECONDS
    if claimed.is_repeat and isinstance(receiver, AlertmanagerReceiver):
        longest = min(longest, receiver.resend_seconds)
    pause = min(longest, FIRST_PAUSE_SECONDS * 2.0 ** min(claimed.attempts, 20))
    asked = error.retry_after if isinstance(error, NotDelivered) else None
    return max(pause * random.uniform(1 - _JITTER, 1 + _JITTER), asked or 0.0)


@asynccontextmanager
async def notifying(notifier: Notifier | None) -> AsyncIterator[None]:
    """Notify until the end of the context; None: there is no notify file."""
    if notifier is None:
        yield
        return
    try:
        async with in_background(notifier.keep_on(), "notifying"):
            yield
    finally:
        await notifier.stop()
