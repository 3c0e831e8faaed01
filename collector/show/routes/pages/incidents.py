"""The pages on incidents: all that are kept, and one with its diagnoses and what a person can say to it."""

from datetime import UTC, datetime
from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from collector.keep.history import IncidentsWanted, search_incidents
from collector.keep.store import Listed
from collector.service import Service
from collector.show.html.report import Report
from collector.show.routes.common import Before, ServiceDependency, form_of, source_of
from collector.show.routes.incidents import IncidentId, Remark, as_shown, remark_on
from collector.show.routes.pages.frame import PER_PAGE, FaultFormDependency, PageRoute, Text, page
from collector.show.routes.pages.reports import verdict_report
from collector.show.routes.rights import SightDependency
from collector.show.text.findings import duration_text
from shared.answer.incidents import LIVE_STATES, Incident, IncidentState
from shared.errors import InvalidInput, NotFound
from shared.server.gate import who_asks

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_OPEN = "open"
"""What the form calls the states of incidents that are not over, together."""


@router.get("/incidents")
async def show_incidents(
    request: Request,
    service: ServiceDependency,
    sight: SightDependency,
    form: FaultFormDependency,
    state: Text = "",
    before: Before = None,
) -> Response:
    """Show incidents by job, node, kind, cause and state."""
    states = LIVE_STATES if state == _OPEN else (IncidentState(state),) if state in set(IncidentState) else ()
    wanted = IncidentsWanted(*form.wanted, states)
    found = await service.async_store.ask(
        search_incidents, service.store, wanted, limit=PER_PAGE, before=before, seen_by=sight.access
    )
    return page(
        request,
        "incidents.html",
        here="incidents",
        title="Incidents",
        incidents=await as_shown(service, found.incidents),
        next=found.next,
        **form.shown(state=state),
        states=(_OPEN, *(each.value for each in IncidentState)),
        is_watching=service.watcher is not None,
    )


def _lasted(incident: Incident) -> str:
    """For how long it has lasted by now, or until it was over."""
    end = datetime.now(UTC) if incident.resolved_at is None else datetime.fromisoformat(incident.resolved_at)
    since = datetime.fromisoformat(incident.still_since or incident.opened_at)
    return duration_text(max(0.0, (end - since).total_seconds()))


@router.get("/incidents/{id}")
async def show_incident(
    id: IncidentId, request: Request, service: ServiceDependency, sight: SightDependency
) -> Response:
    """Show one incident: what its last diagnosis answers, what was said to it, and what happened."""
    await sight.incident(id)
    kept = await service.async_store.ask(service.store.incidents.get, id)
    (incident,) = await as_shown(service, (kept,))
    return page(
        request,
        "incident.html",
        here="incidents",
        title=f"{incident.state.value}: {incident.job}",
        incident=incident,
        lasted=_lasted(incident),
        report=await _last_report(service, incident, source_of(request)),
        diagnoses=await service.async_store.ask(service.store.excerpts, incident.diagnoses, Listed),
        who=who_asks(request).get("certificate", ""),
    )


@router.post("/incidents/{id}/acknowledge")
async def acknowledge(id: IncidentId, request: Request, service: ServiceDependency, sight: SightDependency) -> Response:
    """Say that somebody works on it, and show it again."""
    await remark_on(service, sight, id, service.store.incidents.acknowledge, await _said(request))
    return RedirectResponse(f"/incidents/{id}", status_code=HTTPStatus.SEE_OTHER)


@router.post("/incidents/{id}/false-alarm")
async def false_alarm(id: IncidentId, request: Request, service: ServiceDependency, sight: SightDependency) -> Response:
    """Say that nothing was wrong, and show it again."""
    await remark_on(service, sight, id, service.store.incidents.false_alarm, await _said(request))
    return RedirectResponse(f"/incidents/{id}", status_code=HTTPStatus.SEE_OTHER)


async def _said(request: Request) -> Remark:
    given = await form_of(request)
    try:
        return Remark(by=given.get("by", ""), note=given.get("note", ""))
    except ValidationError as error:
        name = error.errors(include_url=False)[0]["loc"][0]
        raise InvalidInput(f"the {name} is too long", advice="say it in fewer words") from error


async def _last_report(service: Service, incident: Incident, source: tuple[str, ...]) -> Report | None:
    """Return what the newest diagnosis of an incident answers, without what it rests on; None: none is kept."""
    for id in reversed(incident.diagnoses):
        try:
            diagnosis = await service.async_store.ask(service.store.diagnosis, id)
        except NotFound:
            continue
        return verdict_report(diagnosis, source)
    return None
