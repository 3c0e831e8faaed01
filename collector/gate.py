"""What stands before every route: no request is read further than its head before its token is known.

FastAPI parses a body before it runs a route's dependencies, so a guard there would let a stranger fill the memory.
"""

from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import InvalidInput, UnhangError
from shared.problems import problem_response, status_of
from shared.tokens import require_token

MOST_BODY_BYTES = 65_536
"""The largest body that any route takes is a handful of options."""

_OPEN = frozenset({"/healthz", "/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"})


class TooLarge(InvalidInput):
    """A request's body is larger than any that makes sense."""


class Gate:
    """An ASGI middleware: token first, then the body, bounded, then the application."""

    def __init__(self, app: ASGIApp, *, token_file: Path | None) -> None:
        self._app = app
        self._check = require_token(token_file)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._admit(Request(scope), receive)
        except UnhangError as error:
            await _refusal(error, scope["path"])(scope, receive, send)
            return
        await self._app(scope, _Replayed(body, receive), send)

    async def _admit(self, request: Request, receive: Receive) -> bytes:
        if request.url.path not in _OPEN:
            await self._check(request)
        body = bytearray()
        more = _declared(request) > 0
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            body += message.get("body", b"")
            if len(body) > MOST_BODY_BYTES:
                raise TooLarge(f"the body is larger than {MOST_BODY_BYTES} bytes")
            more = message.get("more_body", False)
        return bytes(body)


def _declared(request: Request) -> int:
    """Bytes that the head promises; 1 where it promises some and not how many. Raises TooLarge."""
    if "transfer-encoding" in request.headers:
        return 1
    length = request.headers.get("content-length", "0")
    declared = int(length) if length.isdecimal() and len(length) < 20 else MOST_BODY_BYTES + 1
    if declared > MOST_BODY_BYTES:
        raise TooLarge(f"the body is larger than {MOST_BODY_BYTES} bytes")
    return declared


def _refusal(error: UnhangError, path: str) -> Response:
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if isinstance(error, TooLarge) else status_of(error)
    return problem_response(status, detail=str(error), advice=error.advice, instance=path)


class _Replayed:
    """Gives the body that was read already, then whatever the client sends next."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._message: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._message = self._message, None
        return message if message is not None else await self._receive()
