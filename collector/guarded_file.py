"""A file whose parts may claim any size, read with a bound."""

import io
from typing import Protocol

from shared.errors import UnreadableDump


class Source(Protocol):
    """What is asked of a file, an archive's member or a stream that inflates."""

    def read(self, size: int = ..., /) -> bytes: ...

    def seek(self, offset: int, whence: int = ..., /) -> int: ...

    def tell(self) -> int: ...


class TooLarge(UnreadableDump):
    """A bound was reached."""


class Guarded(io.RawIOBase):
    """A file for `tarfile`, whose headers may claim any size: refuses huge reads, and too many bytes in all."""

    def __init__(self, opened: Source, most_at_once: int, most_in_all: int) -> None:
        self._opened = opened
        self._most_at_once = most_at_once
        self._most_in_all = most_in_all

    def read(self, size: int = -1, /) -> bytes:
        if size < 0 or size > self._most_at_once:
            raise TooLarge(f"a part of the archive claims {size} bytes")
        data = self._opened.read(size)
        if self._opened.tell() > self._most_in_all:
            raise TooLarge("the archive is too large")
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if offset > self._most_in_all:
            raise TooLarge("the archive claims to be too large")
        return self._opened.seek(offset, whence)

    def tell(self) -> int:
        return self._opened.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True
