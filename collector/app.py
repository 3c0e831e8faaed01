"""The collector's HTTP application: settings in, routes out; the lifespan owns what must be opened and closed."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

import httpx
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.routing import Route

from collector.keep.database import StoreTrouble
from collector.keep.run_ledger import Interrupted
from collector.keep.runs import Busy
from collector.renewals import Renewals
from collector.service import Service, open_service
from collector.settings import CollectorSettings
from collector.show.mcp.endpoint import PATH, McpEndpoint, is_installed
from collector.show.routes import (
    agents,
    deliveries,
    diagnoses,
    events,
    health,
    incidents,
    jobs,
    preflights,
    sign_in,
    silences,
    views,
)
from collector.show.routes.common import NotAcceptable
from collector.show.routes.kept_views import KeptViews
from collector.show.routes.pages import diagnoses as diagnosis_pages
from collector.show.routes.pages import incidents as incident_pages
from collector.show.routes.pages import jobs as job_pages
from collector.show.routes.pages import preflights as preflight_pages
from collector.show.routes.pages.reports import ReportPages
from collector.show.routes.rights import check_rule
from shared import VERSION
from shared.errors import UnhangError
from shared.server.api.application import Api
from shared.server.api.methods import HeadAsGet
from shared.server.audit import AuditLog
from shared.server.connection_limits import Answering
from shared.server.gate import Gate, who_asks
from shared.server.problem_handlers import problem_response
from shared.server.refusal_metrics import RefusalMetrics
from shared.server.tokens import require_token

_API_OF_JOBS = ("/v1/jobs", "/v1/diagnoses", "/v1/incidents", "/v1/silences", "/v1/preflights")
_OF_JOBS = (*_API_OF_JOBS, "/jobs", "/diagnoses", "/incidents", "/preflights", "/compare")
_LISTS = ("/v1/jobs", "/v1/diagnoses", "/diagnoses", "/incidents")

_ABOUT = """Finds the rank that hung a distributed training job, says where it is now, and what that rests on.

**For bots.** `POST /v1/jobs/{job}/diagnoses?wait=60` answers with a diagnosis. Act on `verdict` (`hung`, `died`,
`slow`, `not_hung`, `cannot_tell`) and on `findings[0]`: its `kind`, `cause`, `certainty` and `culprits`. Act alone
only on `proven`; page a person on the others. The words are stable: a change of meaning raises `schema_version`.
Fields may be added: ignore those that you do not know.

**Errors** are problem documents (RFC 9457) with `type`, `title`, `status`, `detail` and `advice`.
"""


def create_app(
    settings: CollectorSettings,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    mounts: Mapping[str, httpx.AsyncBaseTransport | None] | None = None,
) -> FastAPI:
    """Return the application. `transport` and `mounts` stand in for the network between collector and agents."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_service(settings, transport=transport, mounts=mounts) as service:
            app.state.service = service
            app.state.report_pages = ReportPages(service)
            app.state.kept_views = KeptViews()
            service.counters.include(RefusalMetrics("unhang_collector_refused", app.state.audit))
            yield
        app.state.audit.close()

    app = Api(
        title="unhang collector",
        version=VERSION,
        summary="Which rank hung the job, why, and what now?",
        description=_ABOUT,
        lifespan=lifespan,
    )
    app.state.audit = AuditLog(settings.audit_log)
    app.state.ending = threading.Event()
    app.state.renewals = Renewals(app, settings)
    note, answering = partial(_note, app.state.audit), Answering(settings.most_connections)
    app.add_middleware(HeadAsGet)
    app.add_middleware(
        Gate, token_file=settings.token_file, audit=app.state.audit, admitted=note, pages=True, answering=answering
    )
    for trouble, handler in _ON.items():
        app.add_exception_handler(trouble, handler)
    _add_routes(app, settings)
    return app


def _add_routes(app: FastAPI, settings: CollectorSettings) -> None:
    own = require_token(settings.token_file, sessions=True)
    guards = [Depends(HTTPBearer(auto_error=False)), Depends(own), Depends(check_rule)]
    for router in (health.open_router, sign_in.open_router):
        app.include_router(router)
    pages = (job_pages, diagnosis_pages, incident_pages, preflight_pages)
    api = (sign_in, health, agents, jobs, diagnoses, views, incidents, events, silences, preflights, deliveries)
    for router in (*(module.router for module in (*pages, *api)), jobs.last_router):
        app.include_router(router, dependencies=guards)
    if is_installed():
        app.router.routes.append(Route(PATH, McpEndpoint(app), methods=["POST"], include_in_schema=False))


def get_service(app: FastAPI) -> Service:
    """Return the service of an application whose lifespan has begun."""
    service = app.state.service
    assert isinstance(service, Service)
    return service


def _note(audit: AuditLog, request: Request, status: int) -> None:
    """Write down who had what of a job looked at or shown: all but lists, metrics and health."""
    path: str = request.scope["path"]
    if path.startswith(_OF_JOBS) and path.rstrip("/") not in _LISTS:
        named = f"?{request.scope['query_string'].decode('latin-1')}" if path == "/compare" else ""
        audit.write("asked", **who_asks(request), what=f"{request.method} {path}{named}"[:500], status=status)


def _on(status: HTTPStatus) -> Callable[[Request, Exception], Awaitable[JSONResponse]]:
    async def answer(request: Request, error: Exception) -> JSONResponse:
        advice = error.advice if isinstance(error, UnhangError) else ""
        return problem_response(status, detail=str(error), advice=advice, instance=request.scope["path"])

    return answer


_ON = {
    Busy: _on(HTTPStatus.SERVICE_UNAVAILABLE),
    StoreTrouble: _on(HTTPStatus.SERVICE_UNAVAILABLE),
    Interrupted: _on(HTTPStatus.GONE),
    NotAcceptable: _on(HTTPStatus.NOT_ACCEPTABLE),
}
