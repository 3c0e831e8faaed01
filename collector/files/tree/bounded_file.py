"""A file whose parts may claim any size, read with a bound on bytes and time."""

import io
import time
from typing import Protocol

from shared.errors import UnreadableDump


class Readable(Protocol):
    """What is asked of an archive's member."""

    def read(self, size: int = ..., /) -> bytes: ...


class ByteSource(Protocol):
    """What is asked of a file, or a stream that inflates."""

    def read(self, size: int = ..., /) -> bytes: ...

    def seek(self, offset: int, whence: int = ..., /) -> int: ...

    def tell(self) -> int: ...


class FileTooLarge(UnreadableDump):
    """A bound was reached."""


class OutOfTime(FileTooLarge):
    """The time for all files together is over."""


class ReadDeadline:
    """The time for all files together."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, self._until - time.monotonic())

    def check(self) -> None:
        """Raise OutOfTime where no time is left."""
        if self.left <= 0:
            raise OutOfTime(self.told)

    @property
    def told(self) -> str:
        """Why a file was left out."""
        return f"left out: the {self._seconds:.0f} s for all files together had passed; raise it with --timeout"


class Guarded(io.RawIOBase):
    """A file whose headers may claim any size: refuses huge reads, too many bytes in all, and reads past the time."""

    def __init__(self, opened: ByteSource, most_at_once: int, most_in_all: int, clock: ReadDeadline) -> None:
        self._opened = opened
        self._most_at_once = most_at_once
        self._most_in_all = most_in_all
        self._clock = clock

    def read(self, size: int = -1, /) -> bytes:
        self._clock.check()
        data = self._opened.read(self._most_at_once + 1 if size < 0 else size) if size <= self._most_at_once else b""
        if max(size, len(data)) > self._most_at_once:
            raise FileTooLarge(f"a part of the archive is larger than the {self._most_at_once} bytes read at once")
        if self._opened.tell() > self._most_in_all:
            raise FileTooLarge(f"the archive is larger than {self._most_in_all} bytes")
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if offset > self._most_in_all:
            raise FileTooLarge(f"the archive claims to be larger than {self._most_in_all} bytes")
        return self._opened.seek(offset, whence)

    def tell(self) -> int:
        return self._opened.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True
