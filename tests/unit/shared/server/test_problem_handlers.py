"""Every error of a service has one shape."""

import json
from http import HTTPStatus

import httpx
import pytest
from fastapi import FastAPI

from shared.errors import InvalidInput, InvalidSettings, NotFound, NotPermitted, UnhangError, Unreachable
from shared.server.problem_handlers import MEDIA_TYPE, install_problem_handlers, problem_response, problems
from shared.server.tokens import Unauthorized


async def ask_failing(error: Exception | None, path: str = "/boom") -> httpx.Response:
    """Ask a service whose only route fails with `error`."""
    app = FastAPI()
    install_problem_handlers(app)

    @app.get("/boom")
    def boom(number: int = 1) -> str:
        if error is not None:
            raise error
        return "fine"

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        return await client.get(path)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Unauthorized("x"), 401, "unauthorized"),
        (NotPermitted("x"), 403, "forbidden"),
        (NotFound("x"), 404, "not-found"),
        (InvalidInput("x"), 400, "bad-request"),
        (Unreachable("x"), 502, "bad-gateway"),
        (InvalidSettings("x"), 500, "internal-server-error"),
        (UnhangError("x"), 500, "internal-server-error"),
    ],
)
async def test_our_errors_have_their_statuses(error: UnhangError, status: int, kind: str) -> None:
    """And their advice travels with them."""
    error.advice = "do this"
    answer = await ask_failing(error)
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.status_code == status
    body = answer.json()
    assert (body["type"], body["status"]) == (f"urn:unhang:problem:{kind}", status)
    assert (body["detail"], body["advice"], body["instance"]) == ("x", "do this", "/boom")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (HTTPStatus.NOT_FOUND, "not-found"),
        (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request-entity-too-large"),
        (HTTPStatus.MISDIRECTED_REQUEST, "misdirected-request"),
        (HTTPStatus.UNPROCESSABLE_ENTITY, "unprocessable-entity"),
    ],
)
def test_types_are_those_of_every_python(status: HTTPStatus, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 has other words for 413 and 422, and callers go by the type."""
    monkeypatch.setattr(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "phrase", "Content Too Large")
    monkeypatch.setattr(HTTPStatus.UNPROCESSABLE_ENTITY, "phrase", "Unprocessable Content")
    problem = json.loads(bytes(problem_response(status, detail="x").body))
    assert (problem["type"], problem["status"]) == (f"urn:unhang:problem:{kind}", status)


def test_described_problems_have_words_of_their_own() -> None:
    """Whoever reads the description learns when each comes."""
    described = problems(HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
    assert list(described) == [404, 410]
    assert len({one["description"] for one in described.values()}) == 2


@pytest.mark.anyio
async def test_unexpected_error_tells_nothing_inside() -> None:
    """Its text may hold what the caller may not see."""
    answer = await ask_failing(ZeroDivisionError("secret"))
    assert answer.status_code == 500
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert "secret" not in answer.text


@pytest.mark.anyio
async def test_errors_of_the_framework_have_the_same_shape() -> None:
    """Unknown paths and wrong parameters too."""
    for path, status in (("/nowhere", 404), ("/boom?number=many", 422)):
        answer = await ask_failing(None, path)
        assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE)
        assert answer.json()["status"] == status
