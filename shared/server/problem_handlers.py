"""Errors as RFC 9457 problem documents: one shape for every error that a service of ours answers with."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from shared.answer.problem import URN, Problem
from shared.errors import InvalidInput, InvalidSettings, NotFound, NotPermitted, UnhangError, Unreachable
from shared.server.tokens import Unauthorized

MEDIA_TYPE = "application/problem+json"

_STATUSES: tuple[tuple[type[UnhangError], HTTPStatus], ...] = (
    (Unauthorized, HTTPStatus.UNAUTHORIZED),
    (NotFound, HTTPStatus.NOT_FOUND),
    (NotPermitted, HTTPStatus.FORBIDDEN),
    (Unreachable, HTTPStatus.BAD_GATEWAY),
    (InvalidInput, HTTPStatus.BAD_REQUEST),
    (InvalidSettings, HTTPStatus.INTERNAL_SERVER_ERROR),
)


PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {"model": Problem, "description": "Any error, as an RFC 9457 problem document."}
}
"""For FastAPI's `responses=`: every route may answer with a problem."""


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
    problem = Problem(
        type=f"{URN}{status.phrase.lower().replace(' ', '-')}",
        title=status.phrase,
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


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return problem_response(HTTPStatus(error.status_code), detail=str(error.detail), instance=request.scope["path"])


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    return problem_response(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        detail=f"unexpected {type(error).__name__}; see the log of this service",
        instance=request.scope["path"],
    )
