"""The grid of ranks: a row per host or per process group, drawn so that eight thousand ranks fit on one screen.

A few ranks are cells with their numbers. Of many, all cells of one standing are one path: five elements, however many
ranks there are.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from collector.show.html.standing import RankStanding, Standing
from collector.show.text.printable import printable
from collector.show.text.waits import ranks_text
from shared.answer.diagnosis import GroupRef
from shared.isolation import costs_itself
from shared.rank_sets import fold, unfold

MOST_NUMBERED = 640
"""Ranks whose cells hold their numbers."""

MOST_DRAWN = 65_536
"""Ranks of one drawing. A job may claim to have a million, and is then shown in words alone."""

_WIDTH = 1160
"""Units that a drawing may be wide: the page's column on a screen of 1,280."""
_MOST_AXES = 4
_MOST_LABEL = 22
_MOST_RINGS = 16
_CHARACTER = 6.7
"""Width of one, of the labels' type."""
_SMALL = 6.1
"""The same of heads above blocks."""


@dataclass(frozen=True)
class Row:
    """One row of ranks: those of a host, or of a process group. `name` None: none is known."""

    name: str | None
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """A numbered cell, by its upper left corner."""

    rank: int
    x: float
    y: float
    standing: Standing


@dataclass(frozen=True)
class Label:
    """Text beside or above a row."""

    x: float
    y: float
    text: str
    lit: bool = False


@dataclass(frozen=True)
class Sheet:
    """All ranks in one order, drawn. `paths`: what is drawn of each standing where cells have no numbers."""

    axis: str
    key: str
    width: float
    height: float
    step_x: float
    step_y: float
    cells: tuple[Cell, ...]
    paths: tuple[tuple[Standing, Markup], ...]
    labels: tuple[Label, ...]
    rings: tuple[tuple[float, float], ...]
    """Where culprits are: each gets a ring that shows from afar."""
    rows: tuple[tuple[float, float, str, str], ...]
    """For the script: each row's corner, its name, and its ranks, in their order."""


@costs_itself(lambda *_: (), part="the drawing of all ranks")
def draw_sheets(places: Sequence[RankStanding], groups: Sequence[GroupRef]) -> tuple[Sheet, ...]:
    """Return the ranks by host, and by each family of process groups that together hold them all."""
    if not 0 < len(places) <= MOST_DRAWN:
        return ()
    axes = [("host and local rank", _by_host(places)), *_by_groups(places, groups)]
    return tuple(_draw(axis, f"axis{at}", rows, places) for at, (axis, rows) in enumerate(axes[:_MOST_AXES]))


def _by_host(places: Sequence[RankStanding]) -> tuple[Row, ...]:
    hosts: dict[str | None, list[RankStanding]] = defaultdict(list)
    for place in places:
        hosts[place.host].append(place)
    rows = [
        Row(host, tuple(p.rank for p in sorted(here, key=lambda p: (p.local_rank is None, p.local_rank or 0, p.rank))))
        for host, here in hosts.items()
        if host is not None
    ]
    unknown = [place.rank for place in hosts.get(None, ())]
    usual = max((len(row.ranks) for row in rows), default=8) if len(unknown) * 2 < len(places) else 8
    rows += [Row(None, tuple(unknown[at : at + usual])) for at in range(0, len(unknown), usual)]
    return tuple(sorted(rows, key=lambda row: min(row.ranks)))


def _by_groups(places: Sequence[RankStanding], groups: Sequence[GroupRef]) -> Iterable[tuple[str, tuple[Row, ...]]]:
    """Yield each family of groups (`tensor`, `data` …) of several that share no rank."""
    all_ranks = {place.rank for place in places}
    families: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for group in groups:
        families[family_of(group)].append(unfold(group.ranks))
    for family, members in sorted(families.items()):
        together = [rank for ranks in members for rank in ranks]
        if len(members) < 2 or len(together) != len(set(together)) or not all_ranks.issuperset(together):
            continue
        rows = [Row(family, ranks) for ranks in sorted(members)]
        rest = sorted(all_ranks.difference(together))
        yield f"group {printable(family, most=40)}", (*rows, *([Row(None, tuple(rest))] if rest else []))


def family_of(group: GroupRef) -> str:
    """Return the name that groups of one kind share: `tp` of `tp0` and `tp1`."""
    name = group.description if group.description not in ("", "undefined") else group.name
    return name.rstrip("0123456789").rstrip("_-:.") or name


def _draw(axis: str, key: str, rows: Sequence[Row], places: Sequence[RankStanding]) -> Sheet:
    standings = {place.rank: place.standing for place in places}
    numbered = len(places) <= MOST_NUMBERED
    step_x, step_y = _steps(places)
    columns = max(len(row.ranks) for row in rows)
    if columns * step_x > _WIDTH - 200:
        columns = int((_WIDTH - 200) // step_x)
        rows = _wrapped(rows, columns)
    names = [_name(row) for row in rows]
    margin = 10 + _CHARACTER * max(map(len, names)) if numbered else 0
    block = margin + columns * step_x + (22 if numbered else 8)
    blocks = max(1, min(int(_WIDTH // block), len(rows)))
    deep = -(-len(rows) // blocks)
    if numbered:
        deep = max(deep, min(len(rows), 8))
    top = 2.0 if numbered else 17.0
    corners = [((at // deep) * block + margin, (at % deep) * step_y + top) for at in range(len(rows))]
    cells = [
        Cell(rank, x + column * step_x, y, standings[rank])
        for (x, y), row in zip(corners, rows, strict=True)
        for column, rank in enumerate(row.ranks)
    ]
    guilty = {rank for rank, standing in standings.items() if standing is Standing.CULPRIT}
    return Sheet(
        axis=axis,
        key=key,
        width=max(x for x, _ in corners) + columns * step_x + 2,
        height=max(y for _, y in corners) + step_y + 2,
        step_x=step_x,
        step_y=step_y,
        cells=tuple(cells) if numbered else (),
        paths=() if numbered else _paths(cells, int(step_x) - 1),
        labels=_labels(rows, names, corners, deep, guilty, beside=numbered, step_y=step_y, room=int(block // _SMALL)),
        rings=_rings(cells, guilty, step_x) if not numbered and len(guilty) <= _MOST_RINGS else (),
        rows=tuple((x, y, name, _listed(row.ranks)) for (x, y), row, name in zip(corners, rows, names, strict=True)),
    )


def _steps(places: Sequence[RankStanding]) -> tuple[float, float]:
    """Return how far apart cells are: the fewer they are, the larger."""
    if len(places) <= 32:
        return 46.0, 34.0
    if len(places) > MOST_NUMBERED:
        return (11.0, 12.0) if len(places) <= 4096 else (8.0, 9.0)
    return max(26.0, 8.0 + 7.5 * len(str(places[-1].rank))), 24.0


def _wrapped(rows: Iterable[Row], columns: int) -> tuple[Row, ...]:
    return tuple(
        Row(row.name, row.ranks[at : at + columns]) for row in rows for at in range(0, len(row.ranks), columns)
    )


def _name(row: Row) -> str:
    whole = ranks_text(fold(row.ranks)) if row.name is None else row.name
    shown = printable(whole, most=200)
    return shown if len(shown) <= _MOST_LABEL else f"…{shown[1 - _MOST_LABEL :]}"


def _head(row: Row, room: int) -> str:
    """Name a block by its first row: nodes without their domain, by their ends, in which they differ."""
    if row.name is None:
        return f"{row.ranks[0]}…" if row.ranks else ""
    name = printable(row.name, most=200).partition(".")[0]
    return name if len(name) < room else f"…{name[2 - room :]}"


def _listed(ranks: Sequence[int]) -> str:
    """Write ranks in their order, `0-7` or `3,1,2`."""
    runs = [list(run) for _, run in groupby(enumerate(ranks), key=lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0][1]}-{run[-1][1]}" if len(run) > 1 else f"{run[0][1]}" for run in runs)


def _labels(
    rows: Sequence[Row],
    names: Sequence[str],
    corners: Sequence[tuple[float, float]],
    deep: int,
    guilty: set[int],
    *,
    beside: bool,
    step_y: float,
    room: int,
) -> tuple[Label, ...]:
    """Name every row where there is room; else the first row of each block, above it, in `room` characters."""
    if beside:
        lit = [not guilty.isdisjoint(row.ranks) for row in rows]
        return tuple(
            Label(x - 8, y + step_y / 2, name, one) for (x, y), name, one in zip(corners, names, lit, strict=True)
        )
    return tuple(
        Label(
            corners[at][0],
            10,
            _head(rows[at], room),
            not guilty.isdisjoint(r for row in rows[at : at + deep] for r in row.ranks),
        )
        for at in range(0, len(rows), deep)
    )


def _rings(cells: Sequence[Cell], guilty: set[int], step: float) -> tuple[tuple[float, float], ...]:
    middle = (step - 1) / 2
    return tuple((cell.x + middle, cell.y + middle) for cell in cells if cell.rank in guilty)


def _shape(standing: Standing, side: int) -> str:
    """Return a filled square, a cross or a hollow square: no standing is known by its colour alone."""
    inner = side - 2
    if standing is Standing.GONE:
        return f"m1 1l{inner} {inner}m0-{inner}l-{inner} {inner}"
    return f"m1 1h{inner}v{inner}h-{inner}z" if standing is Standing.UNSEEN else f"h{side}v{side}h-{side}z"


def _paths(cells: Sequence[Cell], side: int) -> tuple[tuple[Standing, Markup], ...]:
    drawn: dict[Standing, list[str]] = defaultdict(list)
    for cell in cells:
        shape = _shape(cell.standing, side)
        drawn[cell.standing].append(f"M{cell.x:g} {cell.y:g}{shape}")
    return tuple((standing, Markup("".join(drawn[standing]))) for standing in Standing if standing in drawn)
