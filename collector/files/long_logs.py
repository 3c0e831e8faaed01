"""A log of any length, cut to what may matter in it: whole it would take many times its bytes in memory.

1. Numbers are taken out of its lines: of millions, thousands of forms are left, and each form is looked at once.
2. A form may matter where it holds one of the fixed strings that readers of logs go by, less their numbers. These are
   found by one pattern that starts at characters which are rare in this very log.
3. Lines of such a form are kept, with those around them; so are the log's beginning, which shows what stands before
   its lines, and its end. Where that is too much, the first and the last of it are, and this is told. Of NCCL's calls,
   which may be all that a log consists of, the last are kept.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import merge

from collector.files.bounded_file import Readable, ReadDeadline
from shared.formats.logs.general_voice import HINTS as VOICE_HINTS
from shared.formats.logs.nccl_calls import CALL_HINT, INIT_HINT, MOST_CALL_LINES
from shared.formats.logs.parse import HINTS as EVENT_HINTS

_PIECE = 4 * 1024 * 1024
_LONGEST_LINE = 64 * 1024
"""Of a longer line the beginning is looked at."""
_SAMPLE = 65_536
_HEAD_LINES = 400
_TAIL_BYTES = 8 * 1024 * 1024
_MOST_FORMS = 100_000
_MOST_FIRST = 4 * 1024 * 1024
_MOST_LAST = 12 * 1024 * 1024
"""Bytes of telling lines that are kept, from the beginning and before the end."""
_BEFORE = 3
_AFTER = 12
_AFTER_DUMP = 2000
_DUMPS = (b"Python v", b"(most recent call first)")
"""What begins stacks of whole processes."""

_COLOURS = re.compile(rb"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_CALL = CALL_HINT.encode()
_DIGITS = b"0123456789"
_ENDS = bytes.maketrans(b"\r", b"\n")
_HINTS = (*(each.encode() for each in (*EVENT_HINTS, *VOICE_HINTS, INIT_HINT)), *_DUMPS, b'", line ', _CALL)


_Numbered = tuple[int, bytes]


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
    data = b"".join((*sieve.kept(), *held, rest))
    cut = sieve.dropped or unread > 0 or size >= most_bytes
    return Shortened(data, lines + bool(rest), size + unread, cut)


class _Sieve:
    """Steps 1 to 3, piece by piece."""

    def __init__(self) -> None:
        self.dropped = False
        self._pattern: re.Pattern[bytes] | None = None
        self._known: set[bytes] = set()
        self._telling: set[bytes] = set()
        self._first: list[_Numbered] = []
        self._last: deque[_Numbered] = deque()
        self._calls: deque[_Numbered] = deque(maxlen=MOST_CALL_LINES + 1)  # one too many: then some are known to lack
        self._bytes = [0, 0]
        self._number = 0
        self._wanted = _HEAD_LINES
        """Of the lines that come next."""

    def kept(self) -> Iterable[bytes]:
        return (line for _, line in merge(self._first, self._last, self._calls))

    def sift(self, piece: bytes) -> None:
        """Keep of whole lines those that may matter."""
        text = _COLOURS.sub(b"", piece.replace(b"\r\n", b"\n")) if b"\x1b" in piece else piece.replace(b"\r\n", b"\n")
        forms = text.translate(_ENDS, _DIGITS).split(b"\n")[:-1]
        self._look_at(set(forms))
        if not self._wanted and self._telling.isdisjoint(forms):
            return
        lines = text.translate(_ENDS).split(b"\n")
        at = 0
        for number, form in enumerate(forms):
            if form in self._telling and _CALL in form:
                self._calls.append((self._next(), lines[number][:_LONGEST_LINE] + b"\n"))
                at = number + 1
                continue
            if form in self._telling:
                for each in lines[max(at, number - _BEFORE) : number]:
                    self._keep(each)
                after = _AFTER_DUMP if any(hint in form for hint in _DUMPS) else _AFTER
                self._wanted = max(self._wanted, after + 1)
            if self._wanted:
                self._keep(lines[number])
                self._wanted -= 1
                at = number + 1

    def _look_at(self, forms: set[bytes]) -> None:
        """2. Find the telling ones of those that are new."""
        fresh = forms - self._known
        text = b"\n".join(fresh)
        if self._pattern is None:
            self._pattern = _pattern_for(text[:_SAMPLE])
        end = 0
        for match in self._pattern.finditer(text):
            if match.start() >= end:
                begin, end = text.rfind(b"\n", 0, match.start()) + 1, text.find(b"\n", match.start())
                end = len(text) if end < 0 else end
                self._telling.add(text[begin:end])
        if len(self._known) + len(fresh) > _MOST_FORMS:
            self._known.clear()
            self._telling.intersection_update(forms)
        self._known |= fresh

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _keep(self, line: bytes) -> None:
        kept = self._next(), line[:_LONGEST_LINE] + b"\n"
        if self._bytes[0] < _MOST_FIRST:
            self._first.append(kept)
            self._bytes[0] += len(kept[1])
            return
        self._last.append(kept)
        self._bytes[1] += len(kept[1])
        while self._bytes[1] > _MOST_LAST:
            self._bytes[1] -= len(self._last.popleft()[1])
            self.dropped = True


def _pattern_for(sample: bytes) -> re.Pattern[bytes]:
    """One pattern for all fixed strings: each is looked for from a character on that is rare in the sample."""
    hints = {hint.translate(None, _DIGITS) for hint in _HINTS}
    hints = {hint for hint in hints if not any(other != hint and other in hint for other in hints)}
    usual, size = Counter(sample), len(sample) or 1
    by_start: dict[int, list[bytes]] = {}
    left = set(hints)
    while left:
        held = Counter(character for hint in left for character in set(hint))
        start = max(held, key=lambda each: (held[each] / (usual[each] / size + 0.0003), each))
        by_start[start] = sorted(hint for hint in left if start in hint)
        left -= set(by_start[start])
    return re.compile(b"|".join(_from(bytes([start]), by_start[start]) for start in by_start))


def _from(start: bytes, hints: Iterable[bytes]) -> bytes:
    """The pattern of some fixed strings from one of their characters on: what precedes it is looked back at."""
    split = (hint.partition(start) for hint in hints)
    ends = (b"(?<=" + re.escape(before + at) + b")" + re.escape(after) for before, at, after in split)
    return re.escape(start) + b"(?:" + b"|".join(ends) + b")"
