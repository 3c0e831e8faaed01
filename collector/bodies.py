"""Read an HTTP body within bounds, whatever the other side claims about it."""

import zlib
from collections.abc import Iterator

import httpx

from collector.failures import NoAnswer
from shared.missing import Reason

MOST_BODY_BYTES = 64 * 1024 * 1024
"""Of one agent's answer, decompressed. A snapshot of 8 ranks with full windows stays below 4 MiB."""


async def read_body(response: httpx.Response, *, most_bytes: int = MOST_BODY_BYTES, cut: bool = False) -> bytes:
    """Return the body of a streamed response, ungzipped.

    What exceeds `most_bytes` raises NoAnswer, or is left unread where `cut` is set.
    """
    parts: list[bytes] = []
    room = most_bytes
    decode = _decoder(response)
    async for raw in response.aiter_raw(65_536):
        for part in decode(raw, room + 1):
            room -= len(part)
            parts.append(part)
            if room < 0 and cut:
                return b"".join(parts)[:most_bytes]
            if room < 0:
                raise NoAnswer(Reason.REFUSED, f"the answer is larger than {most_bytes} bytes")
    return b"".join(parts)


class _Plain:
    def __call__(self, raw: bytes, most: int) -> Iterator[bytes]:
        yield raw


class _Gzip:
    """Inflates in bounded steps: a kilobyte may claim to be a gigabyte."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)

    def __call__(self, raw: bytes, most: int) -> Iterator[bytes]:
        try:
            yield self._inflate.decompress(raw, max(1, most))
        except zlib.error as error:
            raise NoAnswer(Reason.UNREADABLE, f"the answer's compression is broken: {error}") from error


def _decoder(response: httpx.Response) -> _Plain | _Gzip:
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return _Plain()
    if encoding == "gzip":
        return _Gzip()
    raise NoAnswer(Reason.UNREADABLE, f"the answer has an encoding that was not asked for: {encoding[:40]!r}")
