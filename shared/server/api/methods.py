"""Methods that no route names: which ones a path takes, and HEAD, which is GET without the body (RFC 9110)."""

from fastapi import FastAPI
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OF_ROUTES = ("GET", "POST", "PUT", "PATCH", "DELETE")


def allowed_methods(app: FastAPI, scope: Scope) -> list[str]:
    """Return what the path of a request takes, over all routes that it fits."""
    asked = [(method, {**scope, "method": method}) for method in _OF_ROUTES]
    own = [method for method, one in asked if any(route.matches(one)[0] is Match.FULL for route in app.router.routes)]
    return [*own, *(["HEAD"] if "GET" in own else []), "OPTIONS"]


class HeadAsGet:
    """An ASGI middleware: HEAD is answered like GET, without the body, so that its headers are those of GET."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, send_head)
