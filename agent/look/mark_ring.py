"""What an agent remembers of one rank's marks: where each of its process groups is and since when, and its steps.

A rank that issues, starts or completes an operation has moved. Only such steps are kept, for ten minutes: they tell
how long the rank usually takes between two. What a rank writes into its memory is its own to choose, so groups, texts
and steps are bounded: together some hundred kilobytes a rank at the most.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise
from operator import gt

from agent.sources.recorder.memory.marks import GroupMark
from shared.formats.recorder.operations import parse_operation
from shared.value import whole
from shared.wire.trace import LastIssued, Marks

_MOST_GROUPS = 16
_MOST_TEXT = 128
_MOST_STEPS = 1_200
"""A step is a time: ten minutes of two beats a second."""
_KEPT_SECONDS = 600.0
_LATEST_NS = (1 << 63) - 1

_Name = tuple[str, str]


@dataclass(frozen=True)
class _Place:
    """Where a group is, and since when that is known."""

    mark: GroupMark
    since: float


class MarkRing:
    """The marks of one rank, as its agent has seen them. One caller at a time."""

    def __init__(self) -> None:
        self._places: dict[_Name, _Place] = {}
        self._steps: deque[float] = deque(maxlen=_MOST_STEPS)
        self._read_at: float | None = None

    def note(self, at: float, marks: Iterable[GroupMark]) -> bool:
        """Take in what was read at a time, in Unix seconds. Returns whether the rank has gone on."""
        newest = nlargest(_MOST_GROUPS, map(_bounded, marks), key=lambda mark: mark.issued_ns)
        before, first = self._places, self._read_at is None
        since = _first_since(newest, at) if first else at
        self._places = {}
        for mark in reversed(newest):  # of two groups of one name the one that issued last counts
            name = mark.name, mark.description
            known = before.get(name)
            stands = known is not None and not _is_ahead(mark, known.mark)
            self._places[name] = known if known is not None and stands else _Place(mark, since)
        self._read_at = at
        while self._steps and self._steps[0] < at - _KEPT_SECONDS:
            self._steps.popleft()
        has_moved = not first and any(self._places[name] is not before.get(name) for name in self._places)
        if has_moved:
            self._steps.append(at)
        return has_moved

    @property
    def still_since(self) -> float | None:
        """When the rank was last found further than before, or first read; None: it was never read."""
        return max((place.since for place in self._places.values()), default=None)

    @property
    def is_pending(self) -> bool:
        """Was something issued last that is not completed, as far as its groups tell?"""
        return self.newest is not None and _is_pending(self.newest)

    @property
    def longest_pause(self) -> float | None:
        """Seconds that went by between two steps of the last ten minutes, at most; None with too few of them."""
        return max((later - earlier for earlier, later in pairwise(self._steps)), default=None)

    @property
    def may_be_pending(self) -> bool:
        """Was something issued last that is not known to be completed? Gloo's records do not tell that of a group."""
        mark = self.newest
        return mark is not None and (mark.issued is None or mark.completed is None or _is_pending(mark))

    @property
    def newest(self) -> GroupMark | None:
        """What it issued last, in whichever group; None: its memory was never read, or holds nothing."""
        return max((place.mark for place in self._places.values()), key=lambda mark: mark.issued_ns, default=None)

    def told(self) -> Marks | None:
        """Return the marks as they are sent; None: its memory was never read."""
        if self._read_at is None:
            return None
        latest = sorted(self._places.values(), key=lambda place: place.mark.issued_ns, reverse=True)
        return Marks(
            read_at_ns=int(self._read_at * 1e9),
            groups=tuple(map(_told_of, latest)),
            longest_pause_seconds=self.longest_pause,
        )


def _first_since(newest: list[GroupMark], at: float) -> float:
    """Return since when a rank that is first read is known to be there: since it issued its last, if that is pending.

    What completes beside that is seen by the next beat.
    """
    return min(at, newest[0].issued_ns / 1e9) if newest and _is_pending(newest[0]) else at


def _is_pending(mark: GroupMark) -> bool:
    return mark.issued is not None and mark.completed is not None and mark.completed < mark.issued


def _is_ahead(mark: GroupMark, known: GroupMark) -> bool:
    """Has the group gone on? A mark that was read while the rank wrote may be one operation behind: that is no step."""
    if mark.issued_ns != known.issued_ns:
        return mark.issued_ns > known.issued_ns
    new_numbers, old_numbers = ((m.issued or 0, m.started or 0, m.completed or 0) for m in (mark, known))
    return any(map(gt, new_numbers, old_numbers))


def _bounded(mark: GroupMark) -> GroupMark:
    name, description, operation = map(_shown, (mark.name, mark.description, mark.operation))
    issued_ns = min(max(0, mark.issued_ns), _LATEST_NS)
    return mark._replace(name=name, description=description, operation=operation, issued_ns=issued_ns)


def _shown(text: str) -> str:
    """Return a text of the rank's as it may be shown: short, of one line, and without half characters."""
    kept = whole(text[:_MOST_TEXT])
    return kept if kept.isprintable() else "".join(c if c.isprintable() else "?" for c in kept)


def _told_of(place: _Place) -> LastIssued:
    mark = place.mark
    return LastIssued(
        group=mark.name,
        description=mark.description,
        op=parse_operation(mark.operation)[1],
        sequence=mark.issued,
        completed=mark.completed,
        issued_at_ns=mark.issued_ns,
        since_ns=int(place.since * 1e9),
    )
