"""What one kind of log line, read over all ranks, says about who holds the job."""

from collections.abc import Iterable
from dataclasses import dataclass

from collector.align.marks.table import Witness
from shared.answer.diagnosis import Evidence, GroupRef, Link, LogEvidence
from shared.answer.words import Cause, Kind
from shared.rank_sets import fold
from shared.wire.log_events import LogEvent


@dataclass(frozen=True)
class Opinion:
    """One voter's word. Without culprits it is a tie, or a wait in which nobody stands out."""

    witness: Witness
    kind: Kind
    culprits: tuple[int, ...]
    victims: tuple[int, ...]
    said: str
    evidence: tuple[Evidence, ...]
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
