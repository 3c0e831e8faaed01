"""Speaks HTTP to the worker server that torch opens in a rank.

What answers there belongs to the job and may be slow, endless or made up: one deadline covers the whole
exchange, the answer is bounded, and nothing is sent before the kernel has confirmed who listens.
"""

import re
import socket
from typing import Protocol

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.tools.memory_budget import Receipt
from shared.errors import quoted
from shared.missing import Reason
from shared.wire.trace import Origin

LARGEST_ANSWER = 32 * 1024 * 1024
"""A flight record of 20,000 operations comes to 10 MB: torch leaves the stacks of the calls out of its JSON."""
_LARGEST_HEAD = 16 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LENGTH = re.compile(rb"(?im)^content-length: *(\d{1,15})\r?$")
_CHUNKED = re.compile(rb"(?im)^transfer-encoding: *chunked\r?$")


class RankServer(Protocol):
    """Where a rank's worker server listens."""

    @property
    def origin(self) -> Origin: ...

    def connect(self, deadline: Deadline) -> socket.socket:
        """Connect, and make sure that the rank listens there. Raises UnhangError or OSError."""
        ...


def ask(server: RankServer, request: str, *, deadline: Deadline, receipt: Receipt) -> tuple[int, bytes]:
    """Send `GET /…` or `POST /…` and return status and body. Raises Unavailable, Gone or NotPermitted."""
    try:
        with server.connect(deadline) as channel:
            channel.settimeout(max(deadline.left(), 0.001))
            channel.sendall(
                f"{request} HTTP/1.1\r\nHost: rank\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()
            )
            return _receive(channel, deadline, receipt)
    except TimeoutError as error:
        raise Unavailable(
            Reason.TIMED_OUT, f"the rank's worker server did not answer within {deadline.seconds:.1f} s"
        ) from error
    except OSError as error:
        raise Unavailable(Reason.UNREACHABLE, f"the rank's worker server: {error.strerror or error}") from error


def _receive(channel: socket.socket, deadline: Deadline, receipt: Receipt) -> tuple[int, bytes]:
    data = bytearray()
    end: int | None = None
    while end is None or len(data) < end:
        channel.settimeout(max(deadline.left(), 0.001))
        if deadline.left() <= 0:
            raise TimeoutError
        piece = channel.recv(262_144)
        if not piece:
            break
        data += piece
        deadline = receipt.grown(len(data), deadline)
        end = _end_of_answer(data) if end is None else end
    return _parse(data, end)


def _end_of_answer(data: bytearray) -> int | None:
    """Return where the answer ends, once its head is there. Raises Unavailable if it is too large."""
    head = data.find(b"\r\n\r\n")
    if head < 0 and len(data) > _LARGEST_HEAD:
        raise Unavailable(Reason.UNREADABLE, f"not an HTTP answer: {quoted(bytes(data[:60]))}")
    if head < 0:
        return None
    length = _LENGTH.search(data, 0, head + 2)
    claimed = int(length[1]) if length is not None else 0
    if claimed > LARGEST_ANSWER or len(data) > LARGEST_ANSWER:
        raise Unavailable(Reason.REFUSED, f"the answer is larger than the {LARGEST_ANSWER} bytes we read")
    if _CHUNKED.search(data, 0, head + 2):
        raise Unavailable(Reason.UNREADABLE, "the answer is chunked, which torch's worker server never sends")
    return None if length is None else head + 4 + claimed


def _parse(data: bytearray, end: int | None) -> tuple[int, bytes]:
    head = data.find(b"\r\n\r\n", 0, _LARGEST_HEAD)
    status = _STATUS.match(data)
    if head < 0 or status is None:
        raise Unavailable(Reason.UNREADABLE, f"not an HTTP answer: {quoted(bytes(data[:61]))}")
    if end is not None and len(data) < end:
        raise Unavailable(Reason.UNREADABLE, "the answer ends early")
    with memoryview(data) as whole:  # one copy of what may be large
        return int(status[1]), bytes(whole[head + 4 :])
