"""Who issued what when: a line of time for each rank, from the last operations that all issued to the last look.

1. Culprits come first, then one rank of all that are in the same operation; of a small job all ranks.
2. What came before the last operation takes three fifths of the width, the wait after it the rest, however long it is.
3. A bar is an operation; one that is not completed lasts until its rank was looked at. A culprit that is in none of
   them has a gap from its last one on, and beside it stands where it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median_low

from collector.align.roster import RankView, Roster
from collector.show.text.printable import printable
from collector.show.text.waits import operation_text
from shared.answer.diagnosis import Diagnosis, Finding, GroupRef, Place
from shared.isolation import costs_itself
from shared.units import duration_text
from shared.wire.trace import Record, State

_MOST_ROWS, _MOST_BARS = 12, 24
_WINDOW = 8
"""Operations of each rank that the line begins before."""
_WIDTH, _BEFORE = 1000.0, 600.0
_LANES, _HEIGHT = 3, 24.0
"""Operations that overlap stand below each other, as far as there is room."""
_LEAST_WIDTH = 3.0


@dataclass(frozen=True)
class Bar:
    """One operation, or a gap; the look of it is `done`, `pending` or `gap`. Its title says which, if anything."""

    look: str
    x: float
    y: float
    width: float
    height: float
    title: str = ""


@dataclass(frozen=True)
class RankLine:
    """One rank: its bars, and in words what it issued last and since when it is where."""

    rank: int
    guilty: bool
    bars: tuple[Bar, ...]
    place: str
    said: str


@dataclass(frozen=True)
class Issued:
    """The lines of time of some ranks, with the times at which they begin, the last operation was issued, and ends."""

    lines: tuple[RankLine, ...]
    begins: str
    last: str
    ends: str
    waited: str
    more: int


@dataclass(frozen=True)
class _Rank:
    view: RankView
    records: tuple[Record, ...]
    ahead_ns: int

    @property
    def last(self) -> Record:
        pending = [record for record in self.records if record.state is not State.COMPLETED]
        return pending[0] if pending else self.records[-1]

    def issued_ns(self, record: Record) -> int:
        return record.created_ns - self.ahead_ns

    @property
    def looked_ns(self) -> int:
        looks = (look.looked_at_ns or look.recorded_at_ns or 0 for look in self.view.looks)
        return max(max(looks, default=0) - self.ahead_ns, self.issued_ns(self.records[-1]))

    def end_ns(self, record: Record) -> int:
        if record.state is not State.COMPLETED:
            return self.looked_ns
        return max((record.completed_ns or record.started_ns) - self.ahead_ns, self.issued_ns(record))


@dataclass(frozen=True)
class _Scale:
    begin_ns: int
    last_ns: int
    end_ns: int

    def x(self, at_ns: int) -> float:
        """Return where a time stands (step 2)."""
        before, after = max(self.last_ns - self.begin_ns, 1), max(self.end_ns - self.last_ns, 1)
        if at_ns <= self.last_ns:
            return _BEFORE * max(0.0, (at_ns - self.begin_ns) / before)
        return _BEFORE + (_WIDTH - _BEFORE) * min(1.0, (at_ns - self.last_ns) / after)


@costs_itself(lambda roster, diagnosis: None, part="who issued what when")
def draw_issued(roster: Roster, diagnosis: Diagnosis) -> Issued | None:
    """Return the lines of time; None where no record tells when anything was issued."""
    ranks = {rank: found for rank, view in roster.ranks.items() if (found := _rank(view, roster)) is not None}
    if not ranks:
        return None
    places = {rank: place for finding in diagnosis.findings for rank, place in _places(finding)}
    chosen = _chosen(ranks, [rank for rank in places if rank in ranks])
    last = max(rank.issued_ns(rank.records[-1]) for rank in chosen)
    begin = median_low([rank.issued_ns(rank.records[-_WINDOW:][0]) for rank in chosen])
    scale = _Scale(min(begin, last), last, max(rank.looked_ns for rank in chosen))
    return Issued(
        lines=tuple(_line(rank, scale, places) for rank in chosen),
        begins=_clock(scale.begin_ns),
        last=_clock(scale.last_ns),
        ends=_clock(scale.end_ns)[:-4],
        waited=duration_text((scale.end_ns - scale.last_ns) / 1e9),
        more=len(ranks) - len(chosen),
    )


def _places(finding: Finding) -> list[tuple[int, Place | None]]:
    where = None if finding.where is None else finding.where.user or finding.where.library
    return [(rank, where if at == 0 else None) for at, rank in enumerate(finding.culprit_ranks)]


def _rank(view: RankView, roster: Roster) -> _Rank | None:
    if view.trace is None:
        return None
    records = sorted(view.trace.windowed(_WINDOW).records(), key=lambda record: record.created_ns)
    known = tuple(record for record in records if record.created_ns)
    return _Rank(view, known, roster.ahead_ns(view.rank)) if known else None


def _chosen(ranks: Mapping[int, _Rank], culprits: Sequence[int]) -> list[_Rank]:
    """Take the ranks to show (step 1)."""
    apart: dict[tuple[object, ...], int] = {}
    for rank, one in sorted(ranks.items()):
        last = one.last
        apart.setdefault((last.group.name, last.collective_seq, last.p2p_seq, last.signature.op, last.state), rank)
    others = sorted(ranks) if len(ranks) <= _MOST_ROWS else []
    order = dict.fromkeys([*culprits[: _MOST_ROWS // 2], *apart.values(), *others])
    return [ranks[rank] for rank in list(order)[:_MOST_ROWS]]


def _line(one: _Rank, scale: _Scale, places: Mapping[int, Place | None]) -> RankLine:
    rank, last = one.view.rank, one.last
    guilty, is_in = rank in places, last.state is not State.COMPLETED
    at = scale.x(one.end_ns(last))
    gap = Bar("gap", at, 0.0, _WIDTH - at, _HEIGHT)
    since = duration_text(max(0.0, (one.looked_ns - one.issued_ns(last)) / 1e9))
    told = f"in {_name(last)} for {since}" if is_in else f"has issued nothing since {_name(last)}, for {since}"
    place = places.get(rank)
    return RankLine(
        rank=rank,
        guilty=guilty,
        bars=(*_bars(one, scale), *(() if is_in or not guilty else (gap,))),
        place="" if place is None else printable(str(place), most=200),
        said=told,
    )


def _bars(one: _Rank, scale: _Scale) -> list[Bar]:
    placed: list[tuple[int, Record]] = []
    free = [0] * _LANES
    for record in [each for each in one.records if one.end_ns(each) >= scale.begin_ns][-_MOST_BARS:]:
        lane = next((at for at, until in enumerate(free) if until <= one.issued_ns(record)), _LANES - 1)
        free[lane] = one.end_ns(record)
        placed.append((lane, record))
    height = _HEIGHT / (1 + max((lane for lane, _ in placed), default=0))
    return [_bar(one, scale, record, lane * height, height) for lane, record in placed]


def _bar(one: _Rank, scale: _Scale, record: Record, y: float, height: float) -> Bar:
    x = scale.x(one.issued_ns(record))
    look = "done" if record.state is State.COMPLETED else "pending"
    return Bar(look, x, y, max(_LEAST_WIDTH, scale.x(one.end_ns(record)) - x), height, _name(record))


def _name(record: Record) -> str:
    group = GroupRef(name=record.group.name, description=record.group.description)
    sequence = record.p2p_seq if record.is_p2p else record.collective_seq
    return operation_text(record.signature.op, sequence, group)


def _clock(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / 1e9, UTC).strftime("%H:%M:%S.%f")[:-3]
