"""The first page: jobs that run and what is known of each, incidents that are open, and the latest diagnoses."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from collector.gather.jobs import summarise_jobs, unread_by
from collector.keep.database import StoreTrouble
from collector.show.routes.common import JobName, ServiceDependency
from collector.show.routes.jobs import state_now
from collector.show.routes.pages.frame import PageRoute, page
from collector.show.routes.rights import SightDependency
from shared.answer.incidents import OVER_STATES, JobState, WatchedJob

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def show_jobs(request: Request, service: ServiceDependency, sight: SightDependency) -> Response:
    """Show the jobs that run and what is known of each, incidents that are open, and the latest diagnoses."""
    found = sight.lists(await service.find())
    lists = tuple(found.lists.values())
    jobs = summarise_jobs(lists)
    watched = () if service.watcher is None else sight.watched(service.watcher.watched())
    states = {each.job: each for each in watched}
    for job in jobs:
        if (known := states.get(job.name)) is not None:
            states[job.name] = known.model_copy(update={"state": state_now(job, known, found)})
    unlisted = states.keys() - {job.name for job in jobs}
    over = unlisted | {job for job, each in states.items() if each.state in OVER_STATES}
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
        ended=[each for job, each in states.items() if job in over],
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
