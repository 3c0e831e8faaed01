"""What one kind of log line, read over all ranks, says about who holds the job."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collector.align.groups.table import Witness
from collector.judge.fault_rows import filled
from shared.answer.diagnosis import Evidence, GroupRef, Link, LogEvidence
from shared.answer.words import Cause, Kind
from shared.packs import read_pack
from shared.rank_sets import fold, ranks_in_words
from shared.wire.log_events import LogEvent

Said = tuple[int | None, LogEvent]
"""A line and the rank that wrote it, if that is known."""
_MOST_LINES = 4


@dataclass(frozen=True)
class Opinion:
    """One voter's word. Without culprits it is a tie, or a wait in which nobody stands out."""

    witness: Witness
    kind: Kind
    said: str
    evidence: tuple[Evidence, ...]
    culprits: tuple[int, ...] = ()
    victims: tuple[int, ...] = ()
    firm: bool = False
    """Do the culprits' own lines show it, and those of two others or more agree among each other?"""
    cause: Cause | None = None
    op: str | None = None
    sequence: int | None = None
    ref: GroupRef | None = None
    remarks: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    vague: bool = False
    """Does it tell that something ended and not why, or is it a library's guess?"""


def line_of(event: LogEvent, rank: int | None, about: Iterable[int] = ()) -> LogEvidence:
    """Return a line as evidence: of the rank that wrote it, else of those whom it is about."""
    when = f" at {event.stamp}" if event.stamp else ""
    who = "a log that several ranks write" if rank is None else f"rank {rank}"
    says = "says" if rank is None else "logged"
    ranks = fold(about) if rank is None else fold({rank, *about})
    return LogEvidence(ranks=ranks, text=f"{who} {says} so{when}", path=event.path, line=event.text)


VOTES = read_pack(__file__, "votes.toml")


def voted(
    table: str, lines: Sequence[Said], *, victims: Iterable[int] | None = None, op: str | None = None, **words: object
) -> list[Opinion]:
    """Return what lines say without a word of who is to blame, by the first row of a table that fits the first of them.

    `victims`: those who wrote them, where nothing else is told. `words`: what the row may name, or ask for, besides
    the line's fields.
    """
    if not lines:
        return []
    known = {"who": writers_in_words(lines)} | lines[0][1].fields | words
    held = writers_of(lines) if victims is None else tuple(sorted(victims))
    return [opinion_by(table, (), held, known, op=op, evidence=lines_of(lines))]


def opinion_by(
    table: str,
    culprits: tuple[int, ...],
    victims: Iterable[int],
    words: Mapping[str, object],
    *more: str,
    op: str | None = None,
    **own: Any,
) -> Opinion:
    """Return an opinion by the first row of a table that fits; `more`: further remarks, `own`: what no row tells."""
    held = tuple(victims)
    row, told = filled(VOTES[table], culprits, held, {**words} if op is None else {**words, "op": op})
    told |= {"witness": Witness(row["witness"])} if "witness" in row else {}
    told |= {"remarks": (*told["remarks"], *more), "vague": row.get("vague", False)}
    return Opinion(**{"culprits": culprits, "victims": held, "op": op, "evidence": (), **told, **own})


def lines_of(lines: Sequence[Said], about: Iterable[int] = ()) -> tuple[LogEvidence, ...]:
    """Return the first lines as evidence: a few say what all say."""
    return tuple(line_of(event, rank, about) for rank, event in lines[:_MOST_LINES])


def with_field(lines: Iterable[Said], name: str) -> list[Said]:
    """Return the lines that tell something."""
    return [said for said in lines if name in said[1].fields]


def told_by(lines: Iterable[Said], name: str) -> list[str]:
    """Return what some of the lines tell, each once and in order."""
    return sorted({event.fields[name] for _, event in lines if name in event.fields})


def writers_of(lines: Iterable[Said]) -> tuple[int, ...]:
    """Return the ranks that wrote them, ascending."""
    return tuple(sorted({rank for rank, _ in lines if rank is not None}))


def writers_in_words(lines: Iterable[Said]) -> str:
    """Name the ranks that wrote them."""
    ranks = writers_of(lines)
    return ranks_in_words(ranks) if ranks else "a rank that its line does not tell"
