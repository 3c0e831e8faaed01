"""A log of any length, cut to what may matter in it: whole it would take many times its bytes in memory.

1. A piece of it, and then a line, may matter where it holds one of the fixed strings that readers of logs go by.
2. Such lines are kept, with those around them; so are the beginning of the log, which shows what stands before its
   lines, and its end. Where that is too much, the first and the last of it are, and this is told. Of NCCL's calls,
   which may be all that a log consists of, the last are kept.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import merge

from collector.files.tree.bounded_file import Readable, ReadDeadline
from shared.formats.logs.fixed_strings import finder_of
from shared.formats.logs.nccl_calls import CALL_HINT, INIT_HINT, MOST_CALL_LINES
from shared.formats.logs.parse import HINTS
from shared.formats.logs.tracebacks import FRAME_HINT

_PIECE = 1024 * 1024
_LONGEST_LINE = 64 * 1024
"""Of a longer line the beginning is looked at."""
_HEAD_LINES = 400
_TAIL_BYTES = 8 * 1024 * 1024
_MOST_FIRST = 4 * 1024 * 1024
_MOST_LAST = 12 * 1024 * 1024
"""Bytes of telling lines that are kept, from the beginning and before the end."""
_BEFORE = 3
_AFTER = 12
_AFTER_DUMP = 2000
_DUMPS = ("Python v", "(most recent call first)")
"""What begins stacks of whole processes."""

_COLOURS = re.compile(rb"\x1b\[[0-9;?]{0,20}[A-Za-z]")

_Numbered = tuple[int, str]


@cache
def _tells() -> Callable[[str], bool]:
    strings = (*HINTS, INIT_HINT, *_DUMPS, FRAME_HINT)
    return finder_of(each.encode().decode("latin-1") for each in strings)  # a site's may be in any language


@dataclass(frozen=True)
class Shortened:
    """What is kept of a log, and what of it was read."""

    data: bytes
    lines: int
    """In all of it."""
    size_bytes: int
    cut: bool
    """Were lines left out that may matter, or parts of it not read?"""


def shorten(opened: Readable, clock: ReadDeadline, *, most_bytes: int, unread: int = 0) -> Shortened:
    """Read up to `most_bytes` of a log and keep what may matter; `unread`: bytes before it. Raises OutOfTime."""
    sieve, rest = _Sieve(), b""
    held: deque[bytes] = deque()
    holds = size = lines = 0
    while piece := opened.read(min(_PIECE, most_bytes - size)):
        clock.check()
        size += len(piece)
        lines += piece.count(b"\n")
        whole, ended, rest = (rest + piece).rpartition(b"\n")
        if not ended and len(rest) > _PIECE:
            rest = rest[:_LONGEST_LINE]
        if ended:
            held.append(whole + ended)
            holds += len(held[-1])
        while held and holds - len(held[0]) >= _TAIL_BYTES:
            holds -= len(held[0])
            sieve.sift(held.popleft())
    data = b"".join(("".join(sieve.kept()).encode("latin-1"), *held, rest))
    cut = sieve.dropped or unread > 0 or size >= most_bytes
    return Shortened(data, lines + bool(rest), size + unread, cut)


class _Sieve:
    """What is kept, of whole lines that come piece by piece. One character is one byte here."""

    def __init__(self) -> None:
        self.dropped = False
        self._first: list[_Numbered] = []
        self._last: deque[_Numbered] = deque()
        self._calls: deque[_Numbered] = deque()
        """Pieces, each with the number of its first line."""
        self._calls_kept = 0
        self._bytes = [0, 0]
        self._lines = 0
        self._wanted = _HEAD_LINES
        """Of the lines that come next."""

    def kept(self) -> Iterable[str]:
        """Return the lines in their order; of calls one more than are read: then some are known to lack."""
        calls = [
            (begin + at, line[:_LONGEST_LINE] + "\n")
            for begin, text in self._calls
            for at, line in enumerate(text.split("\n"))
            if CALL_HINT in line
        ]
        return (line for _, line in merge(self._first, self._last, calls[-MOST_CALL_LINES - 1 :]))

    def sift(self, piece: bytes) -> None:
        """Keep of whole lines those that may matter."""
        piece = _COLOURS.sub(b"", piece) if b"\x1b" in piece else piece
        piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in piece else piece
        text = piece.decode("latin-1")
        if CALL_HINT in text:
            self._calls.append((self._lines, text))
            self._calls_kept += text.count(CALL_HINT)
            while self._calls_kept - (oldest := self._calls[0][1].count(CALL_HINT)) > MOST_CALL_LINES:
                self._calls.popleft()
                self._calls_kept -= oldest
        if self._wanted or _tells()(text):
            self._sift_lines(text.split("\n")[:-1])
        self._lines += text.count("\n")

    def _sift_lines(self, lines: Sequence[str]) -> None:
        tells, left = _tells(), 0
        for at, line in enumerate(lines):
            if CALL_HINT in line:
                left = at + 1
                continue
            if tells(line):
                for before in range(max(left, at - _BEFORE), at):
                    self._keep(before, lines[before])
                after = _AFTER_DUMP if any(hint in line for hint in _DUMPS) else _AFTER
                self._wanted = max(self._wanted, after + 1)
            if self._wanted:
                self._keep(at, line)
                self._wanted -= 1
                left = at + 1

    def _keep(self, at: int, line: str) -> None:
        kept = self._lines + at, line[:_LONGEST_LINE] + "\n"
        if self._bytes[0] < _MOST_FIRST:
            self._first.append(kept)
            self._bytes[0] += len(kept[1])
            return
        self._last.append(kept)
        self._bytes[1] += len(kept[1])
        while self._bytes[1] > _MOST_LAST:
            self._bytes[1] -= len(self._last.popleft()[1])
            self.dropped = True
