"""Read an HTTP body within bounds, whatever the other side claims about it."""

import zlib
from collections.abc import Callable

import httpx

from collector.gather.failures import Again, NoAnswer
from shared.missing import Reason

MOST_BODY_BYTES = 64 * 1024 * 1024
"""Of one agent's answer, decompressed. A snapshot of 8 ranks with full windows stays below 4 MiB."""

_MOST_CRUMBS = 1024
_CRUMB_BYTES = 256
"""Pieces that are smaller on the average cost more time to take apart than a whole answer may take."""

_MOST_OVERHEAD_BYTES = 4096
"""What little compresses to may be longer than it was."""


class Body(bytes):
    """A body, ungzipped, and as it came where that was gzipped."""

    gzipped: bytes | None = None


async def read_body(
    response: httpx.Response,
    *,
    most_bytes: int = MOST_BODY_BYTES,
    cut: bool = False,
    tell: Callable[[int], None] | None = None,
) -> Body:
    """Return the body of a streamed response, ungzipped. `tell` is called with the number of bytes as they arrive.

    What exceeds `most_bytes` raises NoAnswer, or is left unread where `cut` is set.
    """
    parts: list[bytes] = []
    raws: list[bytes] = []
    room, came, pieces = most_bytes, 0, 0
    decode = _decoder(response)
    async for raw in response.aiter_raw():
        came, pieces = came + len(raw), pieces + 1
        if tell is not None:
            tell(came)
        part = decode.more(raw, room + 1)
        raws.append(raw)
        room -= len(part)
        parts.append(part)
        if (room < 0 or came > most_bytes) and cut:
            return Body(b"".join(parts)[:most_bytes])
        if room < 0 or came > most_bytes + _MOST_OVERHEAD_BYTES:  # compressed nothing is endless, too
            raise NoAnswer(Reason.REFUSED, f"the answer is larger than {most_bytes} bytes")
        if pieces > _MOST_CRUMBS and came < pieces * _CRUMB_BYTES:
            raise NoAnswer(Reason.REFUSED, f"the answer arrives in too small pieces: {came} bytes in {pieces}")
    if not cut:
        decode.end()
    body = Body(b"".join(parts))
    body.gzipped = b"".join(raws) if isinstance(decode, _Gzip) else None
    return body


class _Plain:
    def more(self, raw: bytes, most: int) -> bytes:
        return raw

    def end(self) -> None:
        """HTTP itself tells where a plain body ends."""


class _Gzip:
    """Inflates in bounded steps: a kilobyte may claim to be a gigabyte."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)

    def more(self, raw: bytes, most: int) -> bytes:
        if self._inflate.eof:
            raise NoAnswer(Reason.UNREADABLE, "the answer continues after its end")
        try:
            return self._inflate.decompress(raw, max(1, most))
        except zlib.error as error:
            raise NoAnswer(Reason.UNREADABLE, f"the answer's compression is corrupt: {error}") from error

    def end(self) -> None:
        if not self._inflate.eof:
            raise NoAnswer(Reason.UNREADABLE, "the answer broke off: its compression has no end", again=Again.BROKE_OFF)


def _decoder(response: httpx.Response) -> _Plain | _Gzip:
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return _Plain()
    if encoding == "gzip":
        return _Gzip()
    raise NoAnswer(Reason.UNREADABLE, f"the answer has an encoding that was not asked for: {encoding[:40]!r}")
