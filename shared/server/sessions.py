"""Sign-ins of people: a bearer token, shown once, is exchanged for a cookie that a browser keeps for two hours.

Nothing is remembered here. The cookie says until when it is good, and carries a code that only who knows the token can
make (HMAC-SHA256), so every collector with the same token file takes it, and none does once the token is out of the
file. What the cookie may not do by itself: a request that changes anything must also say that a page of this service
sends it. Browsers do (`Sec-Fetch-Site` or `Origin`), and shared/server/origins.py has compared that by then.
"""

import hashlib
import hmac
from collections.abc import Iterable

from starlette.requests import Request

COOKIE = "unhang_session"
SECONDS = 2 * 3600
"""How long a sign-in holds."""

SIGN_IN = "/login"
SIGN_OUT = "/logout"

_LONGEST = 128
_SAFE_METHODS = frozenset({"GET", "HEAD"})


def new_cookie(token: bytes, *, now: float) -> str:
    """Return the cookie's value for whoever has shown `token`; `now` in Unix seconds."""
    until = str(int(now) + SECONDS)
    return f"{until}.{_code(token, until)}"


def token_of_cookie(cookie: str, tokens: Iterable[bytes], *, now: float) -> bytes | None:
    """Return the one of `tokens` that a cookie was made with; None where it is none of ours, or its time is over."""
    until, _, code = cookie.partition(".")
    if len(cookie) > _LONGEST or not cookie.isascii() or not until.isdecimal():
        return None
    if not now < int(until) <= now + SECONDS + 1:
        return None
    found = [token for token in tokens if hmac.compare_digest(_code(token, until), code)]
    return found[0] if found else None


def cookie_of(request: Request) -> str | None:
    """Return the cookie that counts for a request: none where it changes something and no page of ours sends it."""
    if request.method not in _SAFE_METHODS and not {"sec-fetch-site", "origin"} & set(request.headers):
        return None
    return request.cookies.get(COOKIE)


def is_for_people(request: Request) -> bool:
    """Does a browser ask for one of the pages, as its user goes there? The API and the metrics are for programs."""
    path = request.scope["path"]
    wants_page = "text/html" in request.headers.get("accept", "")
    return request.method in _SAFE_METHODS and wants_page and not path.startswith(("/v1/", "/metrics"))


def local_target(path: str) -> str:
    """Return where to go after signing in: a path of this service, else its first page."""
    is_local = path.startswith("/") and not path.startswith("//") and path.isascii() and path.isprintable()
    return path if is_local and "\\" not in path and len(path) <= 2000 else "/"


def _code(token: bytes, until: str) -> str:
    key = hashlib.sha256(b"unhang session\0" + token).digest()
    return hmac.new(key, until.encode(), hashlib.sha256).hexdigest()
