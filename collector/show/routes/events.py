"""What happens, as it happens: server-sent events, as a browser's EventSource reads them."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from collector.keep.database import StoreTrouble
from collector.service import Service
from collector.show.routes.common import ServiceDependency
from collector.show.routes.rights import Sight, SightDependency
from shared.answer.incidents import JobState, WatchedJob

router = APIRouter(prefix="/v1/events", tags=["incidents"])

_POLL_SECONDS = 1.0
_BEAT_SECONDS = 15.0
"""Between two lines at most: proxies cut silent connections, and a client that is gone is noticed by a write."""
_MOST_NUMBER = (1 << 63) - 1

_States = dict[tuple[str, str | None], tuple[JobState, str | None]]


@router.get(
    "",
    response_class=StreamingResponse,
    summary="Follow what happens",
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events, WHATWG HTML 9.2."}},
)
async def follow(
    request: Request,
    service: ServiceDependency,
    sight: SightDependency,
    after: Annotated[
        int | None,
        Query(ge=0, le=_MOST_NUMBER, description="Begin behind the event of that number; by default with what is new."),
    ] = None,
    seconds: Annotated[float, Query(ge=0.0, le=3600.0, description="How long to follow.")] = 300.0,
    last_event_id: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> StreamingResponse:
    """Send each change of an incident, and each change of a watched job's state.

    `event: incident` has an `id`, the number to go on `after`, and an incident event as `data`. `event: job` has a
    watched job as `data`; the first ones say how all jobs are. The stream ends after `seconds`: a browser asks again.
    """
    begin = after
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19:
        begin = int(last_event_id)
    if begin is None:
        begin = await service.async_store.ask(service.store.incidents.last_event)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    stream = _stream(service, sight, begin, seconds, request.app.state.ending)
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _stream(
    service: Service, sight: Sight, after: int, seconds: float, ending: threading.Event
) -> AsyncIterator[str]:
    until, wrote = time.monotonic() + seconds, time.monotonic()
    states: _States = {}
    yield "retry: 2000\n\n"
    while True:
        lines, after = await _incidents(service, sight, after)
        lines += _jobs(service, sight, states)
        if lines or time.monotonic() - wrote >= _BEAT_SECONDS:
            wrote = time.monotonic()
            yield "".join(lines) or ": nothing new\n\n"
        if time.monotonic() >= until or ending.is_set():
            return
        await asyncio.sleep(min(_POLL_SECONDS, max(0.0, until - time.monotonic())))


async def _incidents(service: Service, sight: Sight, after: int) -> tuple[list[str], int]:
    try:
        new = await service.async_store.ask(service.store.incidents.events, after=after)
        known = await sight.incidents(event.incident.id for event in new) if sight.access.is_bound else None
    except StoreTrouble:
        return [], after
    told = [event for event in new if known is None or event.incident.id in known]
    if sight.access.is_bound:  # whose the members are is not for everybody
        told = [event.model_copy(update={"incident": event.incident.with_holds({})}) for event in told]
    lines = [f"id: {event.id}\nevent: incident\ndata: {event.model_dump_json(by_alias=True)}\n\n" for event in told]
    return lines, new[-1].id if new else after


def _jobs(service: Service, sight: Sight, states: _States) -> list[str]:
    """Return the jobs whose state has changed, and note it."""
    jobs = () if service.watcher is None else sight.watched(service.watcher.watched())
    lines = []
    for job in jobs:
        now = (job.state, job.incident)
        if states.get((job.job, job.user)) != now:
            states[job.job, job.user] = now
            lines.append(_job(job))
    return lines


def _job(job: WatchedJob) -> str:
    return f"event: job\ndata: {job.model_dump_json()}\n\n"
