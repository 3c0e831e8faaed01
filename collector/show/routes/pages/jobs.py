"""The first page: jobs that run and what is known of each, incidents that are open, and the latest diagnoses."""

from datetime import UTC, datetime
from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from collector.gather.jobs import JobSummary, summarise_jobs, unread_by
from collector.keep.database import StoreTrouble
from collector.show.routes.common import JobName, ServiceDependency
from collector.show.routes.incidents import as_shown
from collector.show.routes.jobs import state_now
from collector.show.routes.pages.frame import PageRoute, Text, page
from collector.show.routes.rights import SightDependency
from shared.answer.incidents import OVER_STATES, JobState, WatchedJob

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def show_jobs(
    request: Request, service: ServiceDependency, sight: SightDependency, q: Text = "", state: Text = ""
) -> Response:
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
        live = await service.async_store.ask(service.store.incidents.live, seen_by=sight.access)
        ids = {each.id for each in live}
        incidents = await as_shown(service, sight, tuple(each for each in live if each.part_of not in ids))
    except StoreTrouble:
        latest, incidents = (), ()
    running = [job for job in jobs if job.name not in over and _fits(job, states.get(job.name), q, state)]
    return page(
        request,
        "jobs.html",
        here="jobs",
        title="Jobs",
        now=datetime.now(UTC),
        wanted={"q": q, "state": state},
        job_states=[each.value for each in JobState if each not in OVER_STATES],
        jobs=sorted(running, key=lambda job: _urgency(states.get(job.name))),
        states=states,
        ended=[each for job, each in states.items() if job in over],
        is_watching=service.watcher is not None,
        incidents=incidents,
        still={each.id: each.still_since or each.opened_at for each in incidents},
        runs={job: run for job, run in service.runs.under_way().items() if sight.sees_run(run)},
        last={each.job: each for each in reversed(latest)},
        silent=[silent.unanswered() for silent in found.silent],
        unread=unread_by(lists),
        agents=len(service.inventory.addresses()),
    )


def _fits(job: JobSummary, watched: WatchedJob | None, text: str, state: str) -> bool:
    """Is it in this state, and has the text in its name, its owner's or a node's?"""
    named = (job.name, job.owner or "", job.user or "", *job.hosts)
    in_state = not state or (watched is not None and watched.state.value == state)
    return in_state and any(text.strip().casefold() in name.casefold() for name in named)


def _urgency(watched: WatchedJob | None) -> int:
    """Return where in the list a job stands: those that may hang come first."""
    urgent = (JobState.HUNG, JobState.SUSPECTED, JobState.SLOW, JobState.QUIET)
    return urgent.index(watched.state) if watched is not None and watched.state in urgent else len(urgent)


@router.post("/jobs/{job:path}/diagnose")
async def diagnose_now(job: JobName, service: ServiceDependency, sight: SightDependency) -> Response:
    """Start a diagnosis, or join the one under way, and show it."""
    run = await service.start(service.question(await sight.job(job)))
    return RedirectResponse(f"/diagnoses/{run.id}", status_code=HTTPStatus.SEE_OTHER)
