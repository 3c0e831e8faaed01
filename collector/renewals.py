"""Registrations that change nothing but times and digests, answered in front of the API: thousands of agents send them.

What FastAPI does for a request (finding the route, dependencies, a thread for one of them, JSON to dicts to models)
takes several times as long as what a renewal needs, and a large cluster sends more than a hundred a second. So:

1. Who asks has been checked by the gate, as for every request, and is checked again, as in every route. Whoever may not
   register is left to the route.
2. The body is read as the route reads it, by the same model. One that is wrong in any way is left to the route, which
   says what is wrong with it.
3. An agent that is known by the same URL is renewed. A new one is left to the route, which looks into where it leads.
"""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

from fastapi import FastAPI, Request
from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collector.agents.registrants import parse_registrant, sender_of
from collector.hostlists import AgentAddress
from collector.service import Service
from shared.errors import UnhangError
from shared.server.tokens import access_of
from shared.wire.registration import Lease, Registration

_PATH = "/v1/agents/"
_LONGEST_HOST = 253
_JSON = b"application/json"


class Renewals:
    """An ASGI middleware between the gate and the API. The API's route does the same, for all that is not plain."""

    def __init__(self, app: ASGIApp, *, api: FastAPI, guard: Callable[[Request], Awaitable[None]]) -> None:
        """`api` is the application whose lifespan has the service; `guard` raises where a token is missing."""
        self._app = app
        self._api = api
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "PUT" or not scope["path"].startswith(_PATH):
            await self._app(scope, receive, send)
            return
        message = await receive()  # the gate has read the whole body
        lease = await self._renewed(Request(scope), message)
        if lease is None:
            await self._app(scope, _again(message, receive), send)
            return
        body = lease.model_dump_json().encode()
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", _JSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _renewed(self, request: Request, message: Message) -> Lease | None:
        """Return the lease of an agent that is renewed; None: it is not, and the route is to say what is the matter."""
        try:
            await self._guard(request)
        except UnhangError:
            return None  # 1
        service, host = self._api.state.service, request.scope["path"][len(_PATH) :]
        assert isinstance(service, Service)
        access, leases = access_of(request), service.inventory.leases
        is_plain = host.isascii() and len(host) <= _LONGEST_HOST and unquote(host) == host and "/" not in host
        if leases is None or access.is_bound or not access.may_look or not is_plain or not _is_json(request):
            return None  # 1
        try:
            await service.may_register(request)
            registration = Registration.model_validate_json(message.get("body", b""))  # 2
            if registration.digest is not None:
                registration.digest.check()
            address = _address(host, registration.url, registration.scheme, registration.port, sender_of(request))
        except (UnhangError, ValidationError):
            return None
        if not leases.holds(address):  # 3
            return None
        return service.renew(address, registration.digest)


@lru_cache(maxsize=8192)
def _address(host: str, url: str | None, scheme: Literal["http", "https"], port: int, sender: str) -> AgentAddress:
    """Return what the same words meant the last time. Raises InvalidHostlist, which is not remembered."""
    own = Registration.model_construct(url=url, scheme=scheme, port=port)
    return parse_registrant(host, own, sender=sender)


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _again(first: Message, receive: Receive) -> Receive:
    """Give the message that has been read once more, then what comes after it."""
    left = [first]

    async def receiving() -> Message:
        return left.pop() if left else await receive()

    return receiving
