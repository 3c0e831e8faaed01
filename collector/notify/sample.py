"""A test alert, sent as the collector would send it."""

import asyncio
import time
from pathlib import Path

from collector.gather.judge_and_stamp import rfc3339
from collector.notify.destinations import make_receiver_client
from collector.notify.notice import make_notice
from collector.notify.notify_file import read_notify_file
from collector.notify.receivers import Include
from collector.notify.send import compose, send
from shared.answer.diagnosis import Culprit
from shared.answer.incidents import Fingerprint, Incident, IncidentChangeKind, IncidentEvent, IncidentState
from shared.answer.words import Cause, Certainty, Kind


def send_test(file: Path, name: str, *, resolve: bool) -> bool:
    """Send it to one receiver of a notify file, and return whether it has a link to follow.

    Raises NotFound, InvalidSettings and NotDelivered.
    """
    found = read_notify_file(file)
    receiver = found.receiver(name)
    event = _event(name, resolve=resolve)
    notice = make_notice(event, event, receiver.include - {Include.STACKS}, page_url=found.page_url, is_test=True)
    outgoing = compose(receiver, notice, source=found.page_url or "/unhang")

    async def attempt() -> None:
        async with make_receiver_client(found.destinations, receiver.ca_file) as client:
            await send(client, outgoing, found.destinations, needs_tls=receiver.needs_tls)

    asyncio.run(attempt())
    return bool(notice.link)


def _event(name: str, *, resolve: bool) -> IncidentEvent:
    """Return an event of an incident that is made up; that of one receiver is always the same one."""
    now = rfc3339(time.time_ns())
    fingerprint = Fingerprint(job="unhang-test", kind=Kind.RANK_NOT_JOINED, culprits="0", group=name)
    incident = Incident(
        id=f"test-{name}",
        job="unhang-test",
        state=IncidentState.RESOLVED if resolve else IncidentState.OPENED,
        kind=Kind.RANK_NOT_JOINED,
        cause=Cause.UNKNOWN,
        certainty=Certainty.SUSPECTED,
        headline="This is a test of unhang's notifications: no job hangs",
        fingerprint=fingerprint,
        key=fingerprint.key,
        culprits=(Culprit(rank=0),),
        opened_at=now,
        seen_at=now,
    )
    kind = IncidentChangeKind.RESOLVED if resolve else IncidentChangeKind.OPENED
    return IncidentEvent(id=time.time_ns() // 1_000_000, at=now, kind=kind, incident=incident)
