"""A gzip file read with bounds: on how many members it is chained of, and on the time.

`gzip.GzipFile` reads a file's name in a member's header byte by byte, and each of a million empty members in Python:
a few megabytes keep it busy for minutes. Here zlib itself reads headers.
"""

import zlib
from typing import BinaryIO

from collector.files.tree.bounded_file import FileTooLarge, ReadDeadline

_PIECE = 262_144
_MOST_MEMBERS = 50_000
"""Of bgzip's, each 64 KiB; logs that are compressed as they grow are chains, too."""
_GZIP = 31


class Inflating:
    """Reads what a gzip file holds. Raises zlib.error, EOFError where it is cut off, TooLarge and OutOfTime."""

    def __init__(self, opened: BinaryIO, clock: ReadDeadline) -> None:
        self._opened = opened
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._opened.seek(0)
        self._inflate = zlib.decompressobj(wbits=_GZIP)
        self._raw = b""
        self._position = 0
        self._members = 1

    def read(self, size: int = -1, /) -> bytes:
        """Read as many bytes, or fewer at the end."""
        parts: list[bytes] = []
        while size > 0:
            part = self._some(min(size, _PIECE))
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a place counted from the beginning, forward by inflating."""
        if offset < self._position:
            self._begin()
        while self._position < offset and self._some(min(offset - self._position, _PIECE)):
            pass
        return self._position

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._position

    def _some(self, most: int) -> bytes:
        """Return up to `most` bytes, none at the end."""
        while True:
            self._clock.check()
            if self._inflate.eof and not self._next_member():
                return b""
            data = self._raw or self._opened.read(_PIECE)
            if not data:
                raise EOFError("the compressed data ends early")
            part = self._inflate.decompress(data, most)
            self._raw = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            if part:
                self._position += len(part)
                return part

    def _next_member(self) -> bool:
        """Begin the member that follows; zeros may pad a file, as tapes do."""
        rest = self._raw.lstrip(b"\0")
        while not rest:
            self._clock.check()
            data = self._opened.read(_PIECE)
            if not data:
                return False
            rest = data.lstrip(b"\0")
        self._raw = rest
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise FileTooLarge(f"it is chained of more than {_MOST_MEMBERS} compressed parts")
        self._inflate = zlib.decompressobj(wbits=_GZIP)
        return True
