"""The pages on diagnoses: all that are kept, one of them, two side by side, and one that is being made."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import Response

from collector.keep.history import PastWanted, search
from collector.show.html.compare import comparison
from collector.show.routes.common import Before, ServiceDependency, source_of
from collector.show.routes.diagnoses import DiagnosisId
from collector.show.routes.pages.frame import PER_PAGE, FaultFormDependency, PageRoute, Text, page, site_of
from collector.show.routes.pages.reports import pages_of
from collector.show.routes.preflights import record_of
from collector.show.routes.rights import Sight, SightDependency
from shared.answer.diagnosis import Diagnosis
from shared.answer.preflight import KeptPreflight
from shared.errors import NotFound, quoted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_TO_CHOOSE_FROM = 30
_MOST_PREFLIGHTS = 10
"""Of the node whose diagnoses are listed; its own page has all."""


@router.get("/diagnoses")
async def show_history(
    request: Request,
    service: ServiceDependency,
    sight: SightDependency,
    form: FaultFormDependency,
    before: Before = None,
) -> Response:
    """Show past diagnoses by job, node, kind and cause; of one node also what preflights found it to be."""
    past = await service.async_store.ask(
        search, service.store, PastWanted(*form.wanted), limit=PER_PAGE, before=before, seen_by=sight.access
    )
    tests: tuple[KeptPreflight, ...] = ()
    if form.node and not before and not sight.access.is_bound:
        tests = await service.async_store.ask(service.store.preflights.list, host=form.node, limit=_MOST_PREFLIGHTS)
    return page(
        request,
        "history.html",
        here="diagnoses",
        title="Diagnoses",
        past=past,
        **form.shown(),
        preflights=tests,
        record=record_of(form.node, tests),
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
            rows=comparison(*chosen),
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
