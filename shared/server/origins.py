"""Refuses requests that a web page makes a browser send, before they look at any process.

A user with a browser on a service's machine, or with a client certificate in it, can be led to any page, and that page
can make the browser ask the service. What the browser sends distinguishes a page from a program, in this order:

1. A service without authentication answers only to loopback names and to the names that it is given: a page whose own
   name resolves to 127.0.0.1 (DNS rebinding) has the service's origin, but the request carries the page's name.
2. `Sec-Fetch-Site` says whether a page of the same origin asks, another one, or none (the address bar). Browsers send
   it wherever they trust the connection: to loopback, and by TLS.
3. `Origin`, which browsers send with everything but GET and HEAD, is our own or one of the names that we are given.

A user who follows a link of another site's page, in a chat or a ticket, sends such a request, too. For the pages that
people look at, the answer is then a page of nothing but a link to itself, which the browser follows at once: that
request comes from this service's own page, and brings the user's cookie (`SameSite=Strict`).

A request with none of these comes from a program. Paths that need no token look at no process and may be linked to:
only step 1 counts there. No browser sends a token by itself, but a proxy may add it to every request: steps 2 and 3
count with a token, too. https://www.w3.org/TR/fetch-metadata/
"""

import re
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import quoted
from shared.server.addresses import is_loopback, parse_authority
from shared.server.audit import AuditLog, Refusal, Refused
from shared.server.gate import LONGEST_PATH, OPEN, who_asks
from shared.server.problem_handlers import problem_response
from shared.server.sessions import is_for_people, local_target

# Origin: https://unhang.example:8443
_ORIGIN = re.compile(r"(https?)://([^/?#@\\]+)", re.ASCII)
_DIRECTLY = "type or paste the address into the browser, or use a program such as curl"
_PROXY = "if the page is this service's own, behind a proxy, add the proxy's name to the setting `allow_hosts`"
ALWAYS_HEADERS = ((b"x-frame-options", b"DENY"),)
"""Of every answer. In another page's frame a user's click could start a diagnosis."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Names:
    """The names by which a service may be asked."""

    given: frozenset[str] = frozenset()
    any_host: bool = False
    """Callers say who they are, so it does not matter by which name they found us."""

    def admit(self, host: str) -> bool:
        """May a request ask for this host?"""
        authority = None if self.any_host else parse_authority(host)
        return self.any_host or (authority is not None and (is_loopback(authority[0]) or authority[0] in self.given))


@dataclass(frozen=True)
class _Rejection:
    reason: Refused
    status: HTTPStatus
    detail: str
    advice: str


class Origins:
    """An ASGI middleware that refuses requests sent by other sites' web pages."""

    def __init__(self, app: ASGIApp, *, names: Names, audit: AuditLog) -> None:
        self._app = app
        self._names = names
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        rejection = rejection_of(request, self._names)
        if rejection is None:
            await self._app(scope, receive, _unframed(send))
            return
        if rejection.reason is Refused.CROSS_SITE and _is_followed_link(request):
            await _once_more(scope)(scope, receive, _unframed(send))
            return
        client, what = who_asks(request)["client"], f"{request.method} {scope['path']}"
        self._audit.refused(Refusal(client, rejection.reason, what, rejection.detail))
        answer = problem_response(
            rejection.status,
            detail=rejection.detail,
            advice=rejection.advice,
            instance=scope["path"][:LONGEST_PATH],
        )
        await answer(scope, receive, _unframed(send))


def rejection_of(request: Request, names: Names) -> _Rejection | None:
    """Return why a request gets nothing, None if it may pass. The steps are those of the module."""
    host = request.headers.get("host", "")
    if not names.admit(host):  # 1.
        return _Rejection(
            Refused.HOST,
            HTTPStatus.MISDIRECTED_REQUEST,
            f"this service does not answer to the name {quoted(host)}",
            "use localhost or 127.0.0.1; if this service should be reachable by this name, add it to the setting "
            "`allow_hosts`",
        )
    if request.scope["path"] in OPEN:
        return None
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site == "same-origin":  # 2.
        return None
    if site not in (None, "none"):
        return _cross_site(
            f"a browser sent this on behalf of another site's page: Sec-Fetch-Site is {quoted(site)}", _DIRECTLY
        )
    if origin is not None and not _is_own(origin, host, names):  # 3.
        return _cross_site(f"a browser sent this on behalf of another site's page: Origin is {quoted(origin)}", _PROXY)
    return None


def _is_followed_link(request: Request) -> bool:
    """Did a user go to one of our pages, in a window of its own? https://www.w3.org/TR/fetch-metadata/"""
    shown = (request.headers.get("sec-fetch-mode"), request.headers.get("sec-fetch-dest"))
    return is_for_people(request) and shown == ("navigate", "document")


def _once_more(scope: Scope) -> Response:
    """Return the page that leads to itself: it looks at nothing, and says nothing that was not in the request."""
    query = scope["query_string"].decode("latin-1")
    path = local_target(quote(scope["path"]) + (f"?{query}" if query else ""))
    headers = {"Content-Security-Policy": "default-src 'none'", "Referrer-Policy": "same-origin"}
    return HTMLResponse(_LINK.format(escape(path)), headers={**headers, "Cache-Control": "no-store"})


_LINK = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>unhang</title><meta http-equiv="refresh" content="0;url={0}">
<p><a href="{0}">Open this page of unhang</a></p></html>
"""


def _cross_site(detail: str, advice: str) -> _Rejection:
    return _Rejection(Refused.CROSS_SITE, HTTPStatus.FORBIDDEN, detail, advice)


def _is_own(origin: str, host: str, names: Names) -> bool:
    """Is it that of a page which came from this service, directly or by a name that was given?

    A proxy that does the TLS makes the schemes differ, so they are not compared.
    """
    match = _ORIGIN.fullmatch(origin)
    theirs, ours = parse_authority(match[2]) if match else None, parse_authority(host)
    if match is None or theirs is None:
        return False
    if theirs[0] in names.given:
        return True
    default = _DEFAULT_PORTS[match[1]]
    return ours is not None and (theirs[0], theirs[1] or default) == (ours[0], ours[1] or default)


def _unframed(send: Send) -> Send:
    """Add what every answer says."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *ALWAYS_HEADERS]}
        await send(message)

    return sending
