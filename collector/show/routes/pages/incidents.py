"""The pages on incidents: all that are kept, and one with its diagnoses and what a person can say to it."""

from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from collector.keep.history import IncidentsWanted, search_incidents
from collector.keep.store import Listed
from collector.service import Service
from collector.show.html.report import Report
from collector.show.routes.common import Before, ServiceDependency, form_of, source_of
from collector.show.routes.incidents import WORDS, IncidentId, Remark, Word, as_shown, say_of
from collector.show.routes.pages.frame import PER_PAGE, FaultFormDependency, PageRoute, Text, page
from collector.show.routes.pages.reports import verdict_report
from collector.show.routes.rights import SightDependency
from collector.show.routes.silences import expire_silence, put_silence
from shared.answer.action import Action
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import LIVE_STATES, Incident, IncidentState, NewSilence, SilenceMatcher
from shared.answer.words import HARDWARE_CAUSES, Cause
from shared.errors import InvalidInput, NotFound
from shared.server.gate import who_asks
from shared.units import duration_text

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
        incidents=await as_shown(service, sight, found.incidents),
        next=found.next,
        **form.shown(state=state),
        states=(_OPEN, *(each.value for each in IncidentState)),
        is_watching=service.watcher is not None,
    )


@router.get("/incidents/{id}")
async def show_incident(
    id: IncidentId, request: Request, service: ServiceDependency, sight: SightDependency
) -> Response:
    """Show one incident: what its last diagnosis answers, what was said to it, and what happened."""
    await sight.incident(id)
    kept = await service.async_store.ask(service.store.incidents.get, id)
    (incident,) = await as_shown(service, sight, (kept,))
    silences = await service.async_store.ask(service.store.silences.list) if incident.silenced_by else ()
    live = await service.async_store.ask(service.store.incidents.live, seen_by=sight.access)
    report, now = await _last_report(service, incident, source_of(request)), datetime.now(UTC)
    return page(
        request,
        "incident.html",
        here="incidents",
        title=f"{incident.state.value}: {incident.job}",
        incident=incident,
        now=now,
        lasted=duration_text(incident.lasted_seconds(now)),
        first=next((each for each in live if each.id == incident.part_of), None),
        together=_together(incident, live),
        silences=[each for each in silences if each.id in incident.silenced_by and sight.sees_silence(each)],
        silenceable=[(of, shown) for of, (shown, _) in _silenceable(incident).items()],
        report=report,
        beyond=None if report is None else _beyond(report, live),
        diagnoses=await service.async_store.ask(service.store.excerpts, incident.diagnoses, Listed),
        who=who_asks(request).get("certificate", ""),
    )


def _add_button(word: Word) -> None:
    async def say(id: IncidentId, request: Request, service: ServiceDependency, sight: SightDependency) -> Response:
        await say_of(service, sight, id, word, await _said(request))
        return _shown_again(id)

    router.add_api_route(f"/incidents/{{id}}/{word.path}", say, methods=["POST"], name=f"{word.change}_on_page")


for _word in WORDS:
    _add_button(_word)


@router.post("/incidents/{id}/silence")
async def silence(id: IncidentId, request: Request, service: ServiceDependency, sight: SightDependency) -> Response:
    """Silence its fault, its job or its nodes for some hours, and show it again."""
    await sight.incident(id)
    incident, given = await service.async_store.ask(service.store.incidents.get, id), await form_of(request)
    said, hours, chosen = await _said(request), _HOURS.get(given.get("hours", "")), _silenceable(incident)
    if hours is None or given.get("of") not in chosen:
        raise InvalidInput("the form says not what to silence, or for how long", advice="send the form of the page")
    now = datetime.now(UTC)
    wanted = NewSilence(
        matchers=chosen[given["of"]][1],
        startsAt=now.isoformat(),
        endsAt=(now + timedelta(hours=hours)).isoformat(),
        createdBy=said.by or "not said",
        comment=said.note or f"silenced on the page of incident {id}",
    )
    await put_silence(wanted, service, sight)
    return _shown_again(id)


@router.post("/incidents/{id}/unsilence")
async def unsilence(id: IncidentId, request: Request, service: ServiceDependency, sight: SightDependency) -> Response:
    """End a silence that holds it back, and show it again."""
    await sight.incident(id)
    chosen = (await form_of(request)).get("silence")
    if chosen is None:
        raise InvalidInput("the form says not which silence", advice="send the form of the page")
    await expire_silence(chosen, service, sight)
    return _shown_again(id)


_SHARED_CAUSES = HARDWARE_CAUSES | {Cause.FILESYSTEM}
"""What a node, a switch or a file server does to several jobs at once."""


def _together(incident: Incident, live: tuple[Incident, ...]) -> list[Incident]:
    """Return the open incidents of other jobs that one thing may be behind."""
    shared = incident.is_live and incident.cause in _SHARED_CAUSES
    others = [each for each in live if shared and each.cause is incident.cause and each.job != incident.job]
    return [each for each in others if each.part_of is None and each.id != incident.part_of]


def _beyond(report: Report, live: tuple[Incident, ...]) -> Incident | None:
    """Return what holds the other job to which its waits lead."""
    return next((each for link in report.chain[-1:] for each in live if each.job == link.job), None)


_HOURS = {"0.5": 0.5, "2": 2.0, "8": 8.0, "24": 24.0}


def _silenceable(incident: Incident) -> dict[str, tuple[str, tuple[SilenceMatcher, ...]]]:
    """Return what can be silenced of an incident: how the form shows it, and what matches it."""
    labels, of_user = incident.labels, _matcher("user", incident.labels["user"])
    fault = ("this fault", (_matcher("key", labels["key"]), of_user))
    job = (f"all of {incident.job}", (_matcher("job", labels["job"]), of_user))
    on = (f"all on {labels['host']}", (_matcher("host", labels["host"]),))
    return {"fault": fault, "job": job, **({"host": on} if labels["host"] else {})}


def _matcher(name: str, value: str) -> SilenceMatcher:
    return SilenceMatcher(name=name, value=value[:1024])


def _shown_again(id: str) -> Response:
    return RedirectResponse(f"/incidents/{id}", status_code=HTTPStatus.SEE_OTHER)


async def _said(request: Request) -> Remark:
    given = await form_of(request)
    try:
        return Remark(by=given.get("by", ""), note=given.get("note", ""))
    except ValidationError as error:
        name = error.errors(include_url=False)[0]["loc"][0]
        raise InvalidInput(f"the {name} is too long", advice="say it in fewer words") from error


async def _last_report(service: Service, incident: Incident, source: tuple[str, ...]) -> Report | None:
    """Return what the newest diagnosis of an incident answers, without what it rests on; None: none is kept.

    What to do is what the incident says: of a job that hung and then died, the look at what is left knows less.
    """
    for id in reversed(incident.diagnoses):
        try:
            diagnosis = await service.async_store.ask(service.store.diagnosis, id)
        except NotFound:
            continue
        return verdict_report(diagnosis.model_copy(update={"action": _act(incident, diagnosis)}), source)
    return None


def _act(incident: Incident, newest: Diagnosis) -> Action | None:
    if incident.action is None:
        return newest.action
    return incident.action.model_copy(update={"lost": ""}) if incident.job_ended else incident.action
