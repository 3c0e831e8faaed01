"""Bearer tokens of a service: kept in a file, one a line with what it may do, read again whenever the file changes.

Several may be valid at once, so that one is changed without an outage: write the new one beside the old one, give it
to the callers, take the old one out.
"""

import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import Request

from shared.errors import InvalidSettings, UnhangError
from shared.server.access import UNBOUND, Access, parse_token_line
from shared.server.addresses import parse_address
from shared.server.secret_files import Stamp, read_secret, stamp_of
from shared.server.sessions import cookie_of, token_of_cookie

WHAT = "token file"


class Unauthorized(UnhangError):
    """The request carries no token, or not one that this service knows."""


class TokenFile:
    """The tokens of one file. Empty lines and lines that begin with `#` do not count."""

    def __init__(self, path: Path, *, may_bind: bool = True) -> None:
        """`may_bind`: its tokens may be for some jobs alone; without, a file with such a token is refused."""
        self._path = path
        self._may_bind = may_bind
        self._seen: Stamp | None = None
        self._tokens: tuple[bytes, ...] = ()
        self._rights: tuple[tuple[bytes, Access], ...] = ()

    def tokens(self) -> tuple[bytes, ...]:
        """Return the tokens that are in the file now.

        Raises InvalidSettings where the file cannot be read, or others may read or change it.
        """
        self._refresh()
        return self._tokens

    def knows(self, token: bytes) -> bool:
        """Is `token` one of ours? Takes as long for a wrong token as for a right one."""
        return self.access_of(token) is not None

    def access_of(self, token: bytes) -> Access | None:
        """Return what the holder of `token` may do; None where it is none of ours, after as long as for one of ours.

        A token that stands there twice may do what the first line says.
        """
        self._refresh()
        digest = _digest(token)
        found = [access for own, access in self._rights if hmac.compare_digest(digest, own)]
        return found[0] if found else None

    def _refresh(self) -> None:
        try:
            stamp = stamp_of(self._path)
        except OSError as error:
            self._forget()
            raise InvalidSettings(
                f"{WHAT} {self._path} cannot be read: {error.strerror}",
                advice="name a file with one token per line, readable only by this service",
            ) from error
        if stamp == self._seen:
            return
        self._forget()
        lines = _parse(read_secret(self._path, WHAT))
        if not self._may_bind and any(access != UNBOUND for _, access in lines):
            raise InvalidSettings(
                f"{WHAT} {self._path} binds a token to some jobs, and this service cannot hold it to that",
                advice="bind tokens in the collector's token_file, and nowhere else",
            )
        self._tokens = tuple(token for token, _ in lines)
        self._rights = tuple((_digest(token), access) for token, access in lines)
        self._seen = stamp

    def _forget(self) -> None:
        """Stop accepting the tokens that the file held before."""
        self._seen, self._tokens, self._rights = None, (), ()


def _parse(data: bytes) -> tuple[tuple[bytes, Access], ...]:
    lines = (line.strip() for line in data.splitlines())
    return tuple(parse_token_line(line) for line in lines if line and not line.startswith(b"#"))


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def fingerprint(token: bytes) -> str:
    """Return eight characters that identify a token in the audit log without revealing it."""
    return _digest(token).hex()[:8]


def require_safe_binding(listen: str, token_file: Path | None, *, client_certificates: bool = False) -> None:
    """Raise InvalidSettings when a service would listen beyond loopback without authentication."""
    if token_file is not None:
        if not TokenFile(token_file).tokens():
            raise InvalidSettings(
                f"{WHAT} {token_file} contains no token", advice="write at least one token into it, one per line"
            )
        return
    if not client_certificates and not parse_address(listen).is_loopback:
        raise InvalidSettings(
            f"refusing to listen on {listen} without authentication",
            advice="set a token file (--token-file, one token per line), or client certificates "
            "(--tls-cert-file, --tls-key-file, --client-ca-file), or listen on 127.0.0.1",
        )


def token_of(request: Request) -> bytes | None:
    """Return the bearer token that a request carries, None without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    # Headers are decoded as latin-1, so that what is no ASCII comes back as the bytes that were sent.
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" and token.strip() else None


def require_token(token_file: Path | None, *, sessions: bool = False) -> Callable[[Request], Awaitable[None]]:
    """Return a FastAPI dependency that lets only requests with a known bearer token pass; None lets all pass.

    With `sessions`, a cookie that was given for such a token does as well, and tokens may be bound to some jobs:
    whoever asks for sessions holds each route against `access_of`.
    """
    tokens = None if token_file is None else TokenFile(token_file, may_bind=sessions)

    async def check(request: Request) -> None:
        if tokens is None:
            return
        token = token_of(request)
        if token is None and sessions and (signed_in := _by_cookie(request, tokens)) is not None:
            token = request.state.signed_in_with = signed_in
        access = None if token is None else _access(tokens, token)
        if access is None:
            raise Unauthorized(
                "this service requires a bearer token", advice="send the header `Authorization: Bearer TOKEN`"
            )
        request.state.access = access

    return check


def access_of(request: Request) -> Access:
    """Return what the sender of a request that was let in may do; everything where no token is asked for."""
    access = getattr(request.state, "access", UNBOUND)
    assert isinstance(access, Access)
    return access


def _access(tokens: TokenFile, token: bytes) -> Access | None:
    with _trouble_is_ours():
        return tokens.access_of(token)


def _by_cookie(request: Request, tokens: TokenFile) -> bytes | None:
    """Return the token that a person has signed in with."""
    cookie = cookie_of(request)
    if cookie is None:
        return None
    with _trouble_is_ours():
        return token_of_cookie(cookie, tokens.tokens(), now=time.time())


@contextmanager
def _trouble_is_ours() -> Iterator[None]:
    """Where the file cannot be read, that is this service's trouble, and no stranger learns where it lies."""
    try:
        yield
    except InvalidSettings as error:
        raise InvalidSettings("this service cannot read its tokens; see its log") from error
