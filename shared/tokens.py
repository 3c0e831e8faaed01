"""Bearer tokens of a service: kept in a file, one a line, read again whenever the file changes."""

import hmac
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import Request

from shared.errors import InvalidSettings, UnhangError
from shared.listening import parse_address

_LARGEST_FILE = 65_536


class Unauthorized(UnhangError):
    """The request carries no token, or not one that this service knows."""


class TokenFile:
    """The tokens of one file. Empty lines and lines that begin with `#` do not count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: tuple[bytes, ...] = ()

    def tokens(self) -> tuple[bytes, ...]:
        """Return the tokens as they stand in the file now. Raises InvalidSettings where it cannot be read."""
        try:
            now = os.stat(self._path)
            stamp = (now.st_mtime_ns, now.st_ino, now.st_size)
            if stamp != self._seen:
                self._tokens = _parse(self._path.read_bytes()[:_LARGEST_FILE])
                self._seen = stamp
        except OSError as error:
            raise InvalidSettings(
                f"token file {self._path} cannot be read: {error.strerror}",
                advice="name a file with one token a line, readable by this service alone",
            ) from error
        return self._tokens

    def knows(self, token: bytes) -> bool:
        """Is `token` one of ours? Takes as long for a wrong token as for a right one."""
        return sum(hmac.compare_digest(token, own) for own in self.tokens()) > 0


def _parse(data: bytes) -> tuple[bytes, ...]:
    lines = (line.strip() for line in data.splitlines())
    return tuple(line for line in lines if line and not line.startswith(b"#"))


def require_safe_binding(listen: str, token_file: Path | None) -> None:
    """Raise InvalidSettings when a service would listen beyond loopback without a token to ask for."""
    if parse_address(listen).is_loopback and token_file is None:
        return
    if token_file is None:
        raise InvalidSettings(
            f"refusing to listen on {listen} without authentication",
            advice="set a token file (--token-file, one token a line), or listen on 127.0.0.1",
        )
    if not TokenFile(token_file).tokens():
        raise InvalidSettings(
            f"token file {token_file} holds no token", advice="write at least one token into it, one a line"
        )


def require_token(token_file: Path | None) -> Callable[[Request], Awaitable[None]]:
    """Return a FastAPI dependency that lets only requests with a known bearer token pass; None lets all pass."""
    tokens = None if token_file is None else TokenFile(token_file)

    async def check(request: Request) -> None:
        if tokens is None:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not tokens.knows(token.strip().encode()):
            raise Unauthorized(
                "this service asks for a bearer token", advice="send the header `Authorization: Bearer TOKEN`"
            )

    return check
