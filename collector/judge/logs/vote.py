"""What one kind of log line, read over all ranks, says about who holds the job."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collector.align.marks.table import Witness
from shared.answer.diagnosis import Evidence, GroupRef, Link, LogEvidence
from shared.answer.words import Cause, Kind
from shared.rank_sets import fold, ranks_in_words
from shared.wire.log_events import LogEvent

Said = tuple[int | None, LogEvent]
"""A line and the rank that wrote it, if that is known."""
_MOST_LINES = 4
FOR_WHOM = "the line does not say for which rank: that of the one who did not come is not here or silent"
"""A remark on whoever waited in vain."""


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


def unnamed(
    witness: Witness,
    kind: Kind,
    lines: Sequence[Said],
    said: str,
    remark: str,
    *,
    victims: Iterable[int] | None = None,
    cause: Cause | None = None,
    op: str | None = None,
) -> Opinion:
    """Return what is told without a word of who is to blame; `victims`: those who wrote it, where nothing else is."""
    waited = writers_of(lines) if victims is None else tuple(sorted(victims))
    return Opinion(witness, kind, said, lines_of(lines), victims=waited, cause=cause, op=op, remarks=(remark,))


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
