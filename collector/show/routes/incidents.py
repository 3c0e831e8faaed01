"""What the collector found wrong by itself, and what people say to it; the jobs that it watches."""

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Body, Path, Query
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from collector.detect.silences import silenced_by
from collector.keep.history import IncidentsWanted, search_incidents
from collector.notify.links import links_of
from collector.service import Service
from collector.show.routes.common import Before, JobName, Limit, OfJob, ServiceDependency, json_answer
from collector.show.routes.rights import Sight, SightDependency
from shared.answer.incidents import Incident, IncidentState, JobState, WatchedJob
from shared.answer.words import Cause, Kind
from shared.server.problem_handlers import problems
from shared.value import Value

router = APIRouter(prefix="/v1", tags=["incidents"], responses=problems(HTTPStatus.SERVICE_UNAVAILABLE))

IncidentId = Annotated[
    str,
    Path(
        description="As the list of incidents gives it.",
        examples=["0195a1c8-7b31-7b3f-a2d6-a3933daff891"],
        max_length=64,
    ),
]


class IncidentList(Value):
    """One page of incidents, newest first."""

    incidents: tuple[Incident, ...]
    next: str | None = Field(default=None, description="Pass it as `before` for the next page; null on the last.")


class Remark(Value):
    """Who says so, and why. All optional."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"examples": [{"by": "ann"}]})

    by: str = Field(default="", max_length=200)
    note: str = Field(default="", max_length=2000)


class WatchedJobs(Value):
    """The jobs that are watched, by name."""

    jobs: tuple[WatchedJob, ...]
    is_watching: bool = Field(description="False: the collector takes no registrations, or `detect` is off.")


class JobHealth(Value):
    """What a probe asks of a job: does it go on? Of one that is not watched nobody knows better."""

    alive: bool = Field(description="False: it was found hung, twice, and is still.")
    state: JobState | None = Field(default=None, description="null: no job of that name is watched.")
    since: str | None = Field(default=None, description="Since when it is stuck, RFC 3339, UTC.")
    why: str = Field(default="", description="The headline of its incident.")
    incident: str | None = Field(default=None, description="The incident's id.")


@router.get("/watched-jobs", response_model=WatchedJobs, summary="List the jobs that are watched")
async def list_watched(service: ServiceDependency, sight: SightDependency) -> Response:
    """Return the state of each job as its agents' digests show it. No agent is asked for it."""
    watcher = service.watcher
    jobs = () if watcher is None else sight.watched(watcher.watched())
    return json_answer(WatchedJobs(jobs=jobs, is_watching=watcher is not None))


@router.get(
    "/watched-jobs/{job:path}/health",
    response_model=JobHealth,
    summary="Ask whether a job is stuck, as probes do",
    responses={503: {**problems(HTTPStatus.SERVICE_UNAVAILABLE)[503], "model": JobHealth}},
)
async def get_health(job: JobName, service: ServiceDependency, sight: SightDependency) -> Response:
    """Answer 503 while the job is stuck, and 200 else: also when it is idle or slow, and when nobody watches it."""
    every = () if service.watcher is None else sight.watched(service.watcher.watched())
    known = [each for each in every if each.job == job]
    stuck = next((each for each in known if each.state is JobState.HUNG and each.incident is not None), None)
    if stuck is None or stuck.incident is None:
        return json_answer(JobHealth(alive=True, state=known[0].state if known else None))
    told = await service.async_store.ask(service.store.incidents.get, stuck.incident)
    since = told.still_since or told.opened_at
    health = JobHealth(alive=False, state=stuck.state, since=since, why=told.headline, incident=told.id)
    return json_answer(health, status=HTTPStatus.SERVICE_UNAVAILABLE)


@router.get("/incidents", response_model=IncidentList, summary="List incidents, newest first")
async def list_incidents(
    service: ServiceDependency,
    sight: SightDependency,
    state: Annotated[
        list[IncidentState] | None, Query(max_length=8, description="Only in this state; may be repeated.")
    ] = None,
    job: OfJob = None,
    host: Annotated[str | None, Query(description="Only with a culprit on this node.")] = None,
    kind: Annotated[Kind | None, Query(description="Only of this kind.")] = None,
    cause: Annotated[Cause | None, Query(description="Only with this cause.")] = None,
    limit: Limit = 50,
    before: Before = None,
) -> Response:
    """Return what is kept, a page at a time."""
    wanted = IncidentsWanted(job, host, kind, cause, tuple(state or ()))
    found = await service.async_store.ask(
        search_incidents, service.store, wanted, limit=limit, before=before, seen_by=sight.access
    )
    return json_answer(IncidentList(incidents=await as_shown(service, sight, found.incidents), next=found.next))


@router.get(
    "/incidents/{id}",
    response_model=Incident,
    summary="Fetch one incident",
    responses=problems(HTTPStatus.NOT_FOUND),
)
async def get_incident(id: IncidentId, service: ServiceDependency, sight: SightDependency) -> Response:
    """Return the incident with its history. Its `diagnoses` are fetched from `/v1/diagnoses/{id}`."""
    await sight.incident(id)
    found = await service.async_store.ask(service.store.incidents.get, id)
    (told,) = await as_shown(service, sight, (found,))
    return json_answer(told)


class Word(NamedTuple):
    """What a person may say of an incident: by a request to the API, or by a button of its page."""

    path: str
    change: str
    """The method of the store that does it."""
    summary: str
    description: str
    may_be_refused: bool = True


WORDS = (
    Word(
        "acknowledge",
        "acknowledge",
        "Say that somebody works on it",
        "Acknowledge an incident; who else does so, or says more, is added to its history. 400 where it is over.",
    ),
    Word(
        "comment",
        "comment",
        "Say something of it",
        "Add a note to an incident's history, over or not; nobody is notified. 400 without a note.",
    ),
    Word(
        "false-alarm",
        "false_alarm",
        "Say that nothing was wrong",
        "End an incident as a false alarm, with all that are part of it.\n\n"
        "The same fault is no incident again for a day; a pause as long as this one is usual for jobs of that name.",
        may_be_refused=False,
    ),
)


def _add_route(word: Word) -> None:
    """Said twice, each changes nothing the second time, but for a comment."""

    async def say(
        id: IncidentId,
        service: ServiceDependency,
        sight: SightDependency,
        remark: Annotated[Remark | None, Body()] = None,
    ) -> Response:
        (told,) = await as_shown(service, sight, (await say_of(service, sight, id, word, remark or Remark()),))
        return json_answer(told)

    refusals = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND) if word.may_be_refused else (HTTPStatus.NOT_FOUND,)
    router.add_api_route(
        f"/incidents/{{id}}/{word.path}",
        say,
        methods=["POST"],
        name=word.change,
        response_model=Incident,
        summary=word.summary,
        description=word.description,
        responses=problems(*refusals),
    )


for _word in WORDS:
    _add_route(_word)


async def say_of(service: Service, sight: Sight, id: str, word: Word, said: Remark) -> Incident:
    """Change an incident that the caller may know of. Raises NotFound, StoreTrouble."""
    await sight.incident(id)
    change: Callable[..., Incident] = getattr(service.store.incidents, word.change)
    return await service.async_store.note(change, id, by=said.by, note=said.note)


async def as_shown(service: Service, sight: Sight, incidents: tuple[Incident, ...]) -> tuple[Incident, ...]:
    """Add what each has cost, the other jobs that it holds, as far as the caller may know of them, the site's links,
    the silences that match, and the receivers that could not be told. Raises StoreTrouble."""
    if not incidents:
        return incidents
    now, silences = datetime.now(UTC), await service.async_store.ask(service.store.silences.list)
    templates = {} if service.notifier is None else service.notifier.links
    members = [id for each in incidents for id in each.members]
    held = await service.async_store.ask(service.store.incidents.held, members, seen_by=sight.access)
    lost = await service.async_store.ask(service.store.deliveries.undelivered, [each.id for each in incidents])
    return tuple(
        each.with_holds(held).model_copy(
            update={
                "links": links_of(templates, each, now),
                "gpu_hours": 0.0 if each.is_slow else each.gpus * each.lasted_seconds(now) / 3600,
                "silenced_by": silenced_by(silences, each.labels),
                "undelivered_to": lost.get(each.id, ()),
            }
        )
        for each in incidents
    )
