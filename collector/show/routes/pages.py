"""The pages that people look at: jobs, past diagnoses, one of them, two side by side, one that is being made."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute

from collector.gather.jobs import summarise_jobs, unread_by
from collector.keep.database import StoreTrouble
from collector.keep.history import PastWanted, search
from collector.keep.runs import Busy
from collector.show.html.compare import comparison
from collector.show.html.page import Site, headers, render
from collector.show.routes.common import JobName, ServiceDependency, source_of
from collector.show.routes.report_pages import pages_of
from collector.show.routes.rights import Sight, SightDependency
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import JobState, WatchedJob
from shared.answer.words import Cause, Kind
from shared.errors import NotFound, UnhangError, quoted
from shared.server.problem_handlers import status_of

_PER_PAGE = 50
_TO_CHOOSE_FROM = 30


class PageRoute(APIRoute):
    """A route whose errors are pages as well."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except UnhangError as error:
                return _trouble(request, error)
            except RequestValidationError as error:
                said = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()[:4])
                return page(
                    request, "trouble.html", HTTPStatus.UNPROCESSABLE_ENTITY, title="Refused", detail=said, advice=""
                )

        return answer


router = APIRouter(route_class=PageRoute, include_in_schema=False)

DiagnosisId = Annotated[str, Path(max_length=64)]
Text = Annotated[str, Query(max_length=300)]


@router.get("/")
async def show_jobs(request: Request, service: ServiceDependency, sight: SightDependency) -> Response:
    """Show the jobs that run and what is known of each, incidents that are open, and the latest diagnoses."""
    found = sight.lists(await service.find())
    lists = tuple(found.lists.values())
    jobs = summarise_jobs(lists)
    watched = () if service.watcher is None else sight.watched(service.watcher.watched())
    states = {each.job: each for each in watched}
    over = {each.job for each in watched if each.state is JobState.ENDED} | states.keys() - {job.name for job in jobs}
    try:
        latest = await service.async_store.ask(service.store.list, limit=200, seen_by=sight.access)
        incidents = await service.async_store.ask(service.store.incidents.live, seen_by=sight.access)
    except StoreTrouble:
        latest, incidents = (), ()
    return page(
        request,
        "jobs.html",
        here="jobs",
        title="Jobs",
        jobs=sorted((job for job in jobs if job.name not in over), key=lambda job: _urgency(states.get(job.name))),
        states=states,
        ended=[each for each in watched if each.job in over],
        is_watching=service.watcher is not None,
        incidents=incidents,
        runs={job: run for job, run in service.runs.under_way().items() if sight.sees_run(run)},
        last={each.job: each for each in reversed(latest)},
        latest=latest[:10],
        silent=[silent.unanswered() for silent in found.silent],
        unread=unread_by(lists),
        agents=len(service.inventory.addresses()),
    )


def _urgency(watched: WatchedJob | None) -> int:
    """Return where in the list a job stands: those that may hang come first."""
    urgent = (JobState.HUNG, JobState.SUSPECTED, JobState.SLOW, JobState.QUIET)
    return urgent.index(watched.state) if watched is not None and watched.state in urgent else len(urgent)


@router.post("/jobs/{job:path}/diagnose")
async def diagnose_now(job: JobName, service: ServiceDependency, sight: SightDependency) -> Response:
    """Start a diagnosis, or join the one under way, and show it."""
    run = await service.start(service.question(await sight.job(job)))
    return RedirectResponse(f"/diagnoses/{run.id}", status_code=HTTPStatus.SEE_OTHER)


@router.get("/diagnoses")
async def show_history(
    request: Request,
    service: ServiceDependency,
    sight: SightDependency,
    job: Text = "",
    node: Text = "",
    kind: Text = "",
    cause: Text = "",
    before: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Show past diagnoses by job, node, kind and cause."""
    wanted = PastWanted(
        job or None,
        node or None,
        Kind(kind) if kind in set(Kind) else None,
        Cause(cause) if cause in set(Cause) else None,
    )
    past = await service.async_store.ask(
        search, service.store, wanted, limit=_PER_PAGE, before=before, seen_by=sight.access
    )
    return page(
        request,
        "history.html",
        here="diagnoses",
        title="Diagnoses",
        past=past,
        wanted={"job": job, "node": node, "kind": kind, "cause": cause},
        kinds=tuple(Kind),
        causes=tuple(Cause),
        runs=[] if before else [run for run in service.runs.under_way().values() if sight.sees_run(run)],
    )


@router.get("/diagnoses/{id}")
async def show_diagnosis(id: DiagnosisId, request: Request, sight: SightDependency) -> Response:
    """Show one diagnosis, or how far it is."""
    found = await sight.fetch(id)
    if isinstance(found, Diagnosis):
        return await pages_of(request).answer(found, site_of(request, "diagnoses"), source=source_of(request))
    return page(request, "run.html", HTTPStatus.ACCEPTED, here="diagnoses", title="Diagnosing", run=found)


@router.get("/compare")
async def compare(
    request: Request, service: ServiceDependency, sight: SightDependency, left: Text = "", right: Text = ""
) -> Response:
    """Show two diagnoses side by side; while one is named, what it can be compared with."""
    chosen = [await _ready(sight, id) for id in (left, right) if id]
    if len(chosen) == 2:
        reports = [await pages_of(request).report(each, source=source_of(request)) for each in chosen]
        return page(
            request,
            "compare.html",
            here="diagnoses",
            title="Two diagnoses",
            reports=reports,
            rows=comparison(*reports),
        )
    job = chosen[0].job if chosen else None
    others = await service.async_store.ask(service.store.list, job=job, limit=_TO_CHOOSE_FROM, seen_by=sight.access)
    return page(
        request, "choose.html", here="diagnoses", title="Compare", chosen=next(iter(chosen), None), others=others
    )


async def _ready(sight: Sight, id: str) -> Diagnosis:
    found = await sight.fetch(id)
    if not isinstance(found, Diagnosis):
        raise NotFound(f"the diagnosis {quoted(id)} is still being made", advice="try again in a moment")
    return found


def page(
    request: Request, template: str, status: HTTPStatus = HTTPStatus.OK, *, here: str = "", **values: object
) -> HTMLResponse:
    """Return one page of ours as an answer."""
    return HTMLResponse(render(template, site_of(request, here), **values), status_code=status.value, headers=headers())


def site_of(request: Request, here: str = "") -> Site:
    """Return what stands around the pages that this caller gets."""
    signed_in = getattr(request.state, "signed_in_with", None) is not None
    return Site(served=True, signed_in=signed_in, here=here)


def _trouble(request: Request, error: UnhangError) -> Response:
    busy = isinstance(error, Busy | StoreTrouble)
    status = HTTPStatus.SERVICE_UNAVAILABLE if busy else status_of(error)
    return page(request, "trouble.html", status, title=status.phrase, detail=str(error), advice=error.advice)
