"""Answers 503 where too much is being answered, and `/healthz` in any case: a probe must tell busy from dead."""

from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from shared.server.accepting.connection_guard import ConnectionGuard
from shared.server.audit import Refused
from shared.server.problem_handlers import problem_response

_ALWAYS = "/healthz"
_LONGEST_PATH = 500


class Crowded:
    """An ASGI middleware around all others. The connection guard knows who is asking."""

    def __init__(self, app: ASGIApp, guard: ConnectionGuard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = str((scope.get("client") or ("unknown",))[0])
        if scope["type"] != "http" or scope["path"] == _ALWAYS or not self._guard.connections.is_full(client):
            await self._app(scope, receive, send)
            return
        self._guard.refuse(client, Refused.TOO_MANY, "all connections are busy")
        answer = problem_response(
            HTTPStatus.SERVICE_UNAVAILABLE,
            detail="too many requests are in progress",
            advice="retry in a moment, or raise most_connections",
            instance=scope["path"][:_LONGEST_PATH],
        )
        answer.headers["Retry-After"] = "1"
        await answer(scope, receive, send)
