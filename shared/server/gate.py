"""The gate in front of every route: a request is refused before more than its head is read, unless its sender may ask.

FastAPI parses a body before it runs a route's dependencies, so a guard there would let anyone fill the memory.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import InvalidInput, TooBusy, UnhangError
from shared.json_bounds import has_halves
from shared.server.audit import AuditLog, Refusal, Refused
from shared.server.connection_limits import Answering, client_of
from shared.server.problem_handlers import problem_response, status_of
from shared.server.sessions import SIGN_IN, is_for_people, local_target
from shared.server.tokens import Unauthorized, fingerprint, require_token, token_of

MOST_BODY_BYTES = 65_536
"""The largest body that most routes take is a handful of options."""

MOST_RESULT_BYTES = 1_048_576
TAKES_RESULTS = frozenset({"/v1/preflights"})
"""Paths that take what was found on thousands of nodes."""

MOST_HEAD_BYTES = 65_536
"""What is longer and comes in pieces is refused before it is whole (`connections.py`), in one piece here."""

_BODY_SECONDS = 10.0
LONGEST_PATH = 500
"""Longest path that a refusal repeats."""
_CLIENT_NAME = "client_name"
"""Where a request's state holds the name in the client's certificate (shared/server/connections.py)."""

_REGISTRATIONS = "/v1/agents/"

OPEN = frozenset({"/healthz", "/docs", "/openapi.json"})
"""Paths that need no token. They look at no process."""


class RequestTooLarge(InvalidInput):
    """A request's body is larger than any that makes sense."""


class HeadTooLarge(RequestTooLarge):
    """A request's head is larger than any that makes sense."""


class TooSlow(InvalidInput):
    """A request's body does not come."""


class HalfCharacters(InvalidInput):
    """A text in a request's body is none."""


class Gate:
    """An ASGI middleware: token first, then the body, bounded, then the application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token_file: Path | None,
        audit: AuditLog,
        admitted: Callable[[Request, int], None] | None = None,
        pages: bool = False,
        answering: Answering | None = None,
    ) -> None:
        """`answering` bounds how many requests are answered at once, and those of one caller; None: nothing does.

        `admitted` is called for every request that was let in, with the status of the answer.

        `pages`: people may sign in, and are sent to where they can.
        """
        self._app = app
        self._check = require_token(token_file, sessions=pages)
        self._open = OPEN | {SIGN_IN} if pages else OPEN
        self._pages = pages
        self._audit = audit
        self._admitted = admitted
        self._answering = answering

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # neither service speaks anything else
        request = Request(scope, receive)
        with ExitStack() as turn:
            try:
                body = await self._admit(request, receive)
                if self._answering is not None and scope["path"] not in OPEN:
                    turn.enter_context(self._answering.one_more(_whose(request), is_first=_registers(scope)))
            except UnhangError as error:
                await self._refuse(error, request, send)
                return
            await self._answer(request, _Replayed(body, receive), send)

    async def _refuse(self, error: UnhangError, request: Request, send: Send) -> None:
        scope = request.scope
        self._audit.refused(_refusal(request, error))
        to_sign_in = self._pages and isinstance(error, Unauthorized) and is_for_people(request)
        answer = _sign_in_first(scope) if to_sign_in else _answer(error, scope["path"])
        await answer(scope, request.receive, send)

    async def _answer(self, request: Request, receive: Receive, send: Send) -> None:
        counted = _Status(send)
        try:
            await self._app(request.scope, receive, counted)
        finally:
            if self._admitted is not None:
                self._admitted(request, counted.status)

    async def _admit(self, request: Request, receive: Receive) -> bytes:
        if _head_bytes(request.scope) > MOST_HEAD_BYTES:
            raise HeadTooLarge(f"the head is larger than {MOST_HEAD_BYTES} bytes")
        # Not that of `request.url`, which old Starlette makes of the Host header, too (CVE-2026-48710).
        if request.scope["path"] not in self._open:
            await self._check(request)
        if _declared(request, _most_body(request)) == 0:
            return b""
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await _read(receive, _most_body(request))
        except TimeoutError as error:
            raise TooSlow(f"the body did not arrive within {_BODY_SECONDS:.0f} s") from error
        if has_halves(body):
            raise HalfCharacters("a text in the body has half a character (a lone surrogate), which nothing can show")
        return body


def _most_body(request: Request) -> int:
    return MOST_RESULT_BYTES if request.scope["path"] in TAKES_RESULTS else MOST_BODY_BYTES


async def _read(receive: Receive, most: int) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        body += message.get("body", b"")
        if len(body) > most:
            raise RequestTooLarge(f"the body is larger than {most} bytes")
        more = message.get("more_body", False)
    return bytes(body)


def who_asks(request: Request) -> dict[str, str]:
    """Return who sends a request, for the audit log: address and credentials."""
    client = request.client.host if request.client is not None else "local"
    name = getattr(request.state, _CLIENT_NAME, None)
    token = getattr(request.state, "signed_in_with", None) or token_of(request)
    shown = {"certificate": name, "token": None if token is None else fingerprint(token)}
    return {"client": client, **{what: value for what, value in shown.items() if value is not None}}


def _whose(request: Request) -> str:
    """Return who counts as one caller: the holder of a token, else of a certificate, else a client's address."""
    asks = who_asks(request)
    return asks.get("token") or asks.get("certificate") or client_of(asks["client"])


def _registers(scope: Scope) -> bool:
    return bool(scope["method"] == "PUT" and scope["path"].startswith(_REGISTRATIONS))


def _head_bytes(scope: Scope) -> int:
    """How large a request's head is, but for what parts its pieces."""
    headers = sum(len(name) + len(value) for name, value in scope["headers"])
    return headers + len(scope.get("raw_path") or b"") + len(scope["query_string"])


def _declared(request: Request, most: int) -> int:
    """Bytes that the head promises; 1 where it promises some and not how many. Raises TooLarge."""
    if "transfer-encoding" in request.headers:
        return 1
    length = request.headers.get("content-length", "0")
    declared = int(length) if length.isdecimal() and len(length) < 20 else most + 1
    if declared > most:
        raise RequestTooLarge(f"the body is larger than {most} bytes")
    return declared


def _refusal(request: Request, error: UnhangError) -> Refusal:
    what = f"{request.method} {request.scope['path']}"
    return Refusal(who_asks(request)["client"], _reason(request, error), what, str(error.__cause__ or error))


def _reason(request: Request, error: UnhangError) -> Refused:
    if isinstance(error, Unauthorized):
        return Refused.NO_TOKEN if token_of(request) is None else Refused.WRONG_TOKEN
    if isinstance(error, RequestTooLarge):
        return Refused.TOO_LARGE
    if isinstance(error, HalfCharacters):
        return Refused.MALFORMED
    if isinstance(error, TooBusy):
        return Refused.TOO_MANY
    return Refused.TOO_SLOW if isinstance(error, TooSlow) else Refused.OWN_TROUBLE


def _answer(error: UnhangError, path: str) -> Response:
    statuses: dict[type[UnhangError], HTTPStatus] = {
        HeadTooLarge: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        RequestTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        TooSlow: HTTPStatus.REQUEST_TIMEOUT,
    }
    status = statuses.get(type(error)) or status_of(error)
    return problem_response(status, detail=str(error), advice=error.advice, instance=path[:LONGEST_PATH])


def _sign_in_first(scope: Scope) -> Response:
    """Send a browser to where its user can sign in, and from there back."""
    query = scope["query_string"].decode("latin-1")
    wanted = local_target(quote(scope["path"]) + (f"?{query}" if query else ""))
    return RedirectResponse(f"{SIGN_IN}?next={quote(wanted, safe='')}", status_code=HTTPStatus.SEE_OTHER)


class _Status:
    """Passes an answer on and remembers its status; 500 where none came."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = HTTPStatus.INTERNAL_SERVER_ERROR.value

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


class _Replayed:
    """Gives the body that was read already, then whatever the client sends next."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._message: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        message, self._message = self._message, None
        return message if message is not None else await self._receive()
