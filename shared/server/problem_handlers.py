"""Errors as RFC 9457 problem documents: one shape for every error that a service of ours answers with."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from shared.answer.problem import URN, Problem
from shared.errors import InvalidInput, InvalidSettings, NotFound, NotPermitted, TooBusy, UnhangError, Unreachable
from shared.server.api.methods import allowed_methods
from shared.server.tokens import Unauthorized

MEDIA_TYPE = "application/problem+json"

_STATUSES: tuple[tuple[type[UnhangError], HTTPStatus], ...] = (
    (Unauthorized, HTTPStatus.UNAUTHORIZED),
    (NotFound, HTTPStatus.NOT_FOUND),
    (TooBusy, HTTPStatus.SERVICE_UNAVAILABLE),
    (NotPermitted, HTTPStatus.FORBIDDEN),
    (Unreachable, HTTPStatus.BAD_GATEWAY),
    (InvalidInput, HTTPStatus.BAD_REQUEST),
    (InvalidSettings, HTTPStatus.INTERNAL_SERVER_ERROR),
)


PROBLEM_SCHEMA = {"$ref": f"#/components/schemas/{Problem.__name__}"}

_MEANINGS = {
    HTTPStatus.BAD_REQUEST: "A value is of the right type and makes no sense, e.g. a rank set that runs backwards.",
    HTTPStatus.UNAUTHORIZED: "The bearer token is missing or unknown.",
    HTTPStatus.FORBIDDEN: "The caller may not do this, or a browser asks on behalf of another site's page.",
    HTTPStatus.NOT_FOUND: "There is no such job, rank, process or diagnosis.",
    HTTPStatus.NOT_ACCEPTABLE: "None of the media types in `Accept` is on offer.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
    HTTPStatus.GONE: "The collector that was making the diagnosis ended before it was ready.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.MISDIRECTED_REQUEST: "The service does not answer to the name in `Host`.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A parameter or the body is missing, of the wrong type or out of range.",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "The request's head is too large.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The service failed. Its log says why.",
    HTTPStatus.BAD_GATEWAY: "An agent did not answer, or not with sense.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The service or its machine is busy, or its store is silent. Try again later.",
}

_TITLES = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Request Entity Too Large",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Entity",
}
"""Python 3.13 calls these differently, and a problem's `type` is the same on all of them."""


def problems(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Return what FastAPI's `responses=` takes for a route that may answer with problems of these statuses.

    `shared/server/api/application.py` adds the schema to the components of the description, and the problems that any
    route may answer with. FastAPI's own `model` would say that problems are plain JSON.
    """
    content = {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}}
    return {int(status): {"description": _MEANINGS[status], "content": content} for status in sorted(statuses)}


def install_problem_handlers(app: FastAPI) -> None:
    """Make `app` answer every error with a problem document."""
    app.add_exception_handler(UnhangError, _on_own_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_unexpected)


def status_of(error: UnhangError) -> HTTPStatus:
    """Return the HTTP status that tells a client of `error`."""
    found = (status for kind, status in _STATUSES if isinstance(error, kind))
    return next(found, HTTPStatus.INTERNAL_SERVER_ERROR)


def problem_response(status: HTTPStatus, *, detail: str, advice: str = "", instance: str = "") -> JSONResponse:
    """Return an answer with one problem document."""
    title = _TITLES.get(status, status.phrase)
    problem = Problem(
        type=f"{URN}{title.lower().replace(' ', '-')}",
        title=title,
        status=status.value,
        detail=detail,
        advice=advice,
        instance=instance,
    )
    headers = {"WWW-Authenticate": "Bearer"} if status is HTTPStatus.UNAUTHORIZED else None
    return JSONResponse(problem.model_dump(), status_code=status.value, headers=headers, media_type=MEDIA_TYPE)


async def _on_own_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, UnhangError)
    return problem_response(status_of(error), detail=str(error), advice=error.advice, instance=request.scope["path"])


async def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    detail = "; ".join(f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in error.errors()[:10])
    return problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, detail=detail[:1000], instance=request.scope["path"])


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    answer = problem_response(status, detail=str(error.detail), instance=request.scope["path"])
    if status is not HTTPStatus.METHOD_NOT_ALLOWED:
        return answer
    allow = {"Allow": ", ".join(allowed_methods(request.app, request.scope))}
    if request.method == "OPTIONS":
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=allow)
    answer.headers.update(allow)
    return answer


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    return problem_response(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        detail=f"unexpected {type(error).__name__}; see the log of this service",
        instance=request.scope["path"],
    )
