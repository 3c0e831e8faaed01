"""Requests so plain that they are answered as they arrive: of thousands of agents each sends one a minute.

To read any request, and to take it through all layers of an application, costs several times what a short question
needs. One is plain if

1. it is all that its connection has brought, in one piece;
2. its head has no other fields than those below, none twice, each in the one form in which our agents write it;
3. its body is as long as the head says.

Whatever else arrives is read as any request, byte for byte; so is one to which nobody has an answer ready. The answer
to a plain request is the one that it would have got in that way.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from shared.server.origins import ALWAYS_HEADERS


class PlainRequest(NamedTuple):
    """A request to put a short JSON text somewhere, and who sends it."""

    client: str
    """The address."""
    path: str
    host: str
    token: bytes | None
    body: bytes
    keeps: bool = False
    """May others follow on its connection, as far as the client is concerned?"""


class PlainAnswer(NamedTuple):
    """The answer to a plain request."""

    text: bytes
    """JSON."""
    may_keep: bool
    """May its connection be kept for the next one?"""


AnswerAtOnce = Callable[[PlainRequest], bytes | None]
"""Returns the JSON text of the answer (200); None: the request is to be read as any other."""

MOST_BYTES = 65_536
"""Of head and body."""

_MANY, _MANY_SECONDS = 32, 1.0
"""So many within that time are many."""


class Pace:
    """Whether many come."""

    def __init__(self) -> None:
        self._answered: deque[float] = deque(maxlen=_MANY)

    def note(self) -> None:
        """Note that one was answered."""
        self._answered.append(time.monotonic())

    def is_high(self) -> bool:
        """Have many been answered of late?"""
        return len(self._answered) == _MANY and time.monotonic() - self._answered[0] <= _MANY_SECONDS


# PUT /v1/agents/node07 HTTP/1.1
_HEAD = re.compile(rb"PUT (/[A-Za-z0-9._/-]{1,400}) HTTP/1\.1\r\n((?:[A-Za-z-]+: [!-~]+(?: [!-~]+)?\r\n){1,8})\r\n")
_FIXED = {b"accept-encoding": b"identity", b"content-type": b"application/json"}
_FREE = frozenset({b"host", b"content-length", b"authorization", b"connection"})
_KEEPS = {b"close": False, b"keep-alive": True}
_BEARER = b"Bearer "


def parse_plain(data: bytes, client: str) -> PlainRequest | None:
    """Return the request that a connection begins with, if it is plain. The steps are those of the module."""
    head = _HEAD.match(data) if len(data) <= MOST_BYTES else None
    if head is None:
        return None
    lines = [line.split(b": ", 1) for line in head[2].splitlines()]
    fields = {name.lower(): value for name, value in lines}
    body = data[head.end() :]
    own = {name: value for name, value in fields.items() if name not in _FREE}
    if own != _FIXED or len(fields) != len(lines):  # 1, 2
        return None
    if fields.get(b"content-length") != b"%d" % len(body) or not body:  # 3
        return None
    host, authorization = fields.get(b"host"), fields.get(b"authorization")
    keeps = _KEEPS.get(fields.get(b"connection", b""))
    if host is None or keeps is None or not (authorization is None or authorization.startswith(_BEARER)):
        return None
    token = None if authorization is None else authorization[len(_BEARER) :]
    return PlainRequest(client, head[1].decode("ascii"), host.decode("ascii"), token, body, keeps)


def json_answer(text: bytes, headers: Iterable[tuple[bytes, bytes]], *, kept: bool = False) -> bytes:
    """Return an answer of JSON with these headers and those of every answer; the connection is closed unless `kept`."""
    own = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text))]
    own += () if kept else ((b"connection", b"close"),)
    lines = b"".join(b"%s: %s\r\n" % header for header in (*headers, *own, *ALWAYS_HEADERS))
    return b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n" + text
