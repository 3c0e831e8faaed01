"""Votes by those who name others: the desync report of the watchdog, and rank 0 at a monitored barrier.

They are one reporter's word on others, taken from counters or messages that had arrived: hints, and firm only together
with something else. The reporter never names itself, so where it names most of its group it may be the odd one.
"""

from collections.abc import Iterable

from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import Membership
from collector.judge.logs.vote import Opinion, Witness, line_of
from collector.judge.logs.watchdog import INSIDE, MOST_LINES
from shared.answer.diagnosis import Evidence
from shared.answer.words import Kind
from shared.plural import ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.log_events import EventKind, LogEvent

_Said = tuple[int | None, LogEvent]
_WATCHDOG = "the desync report of the watchdog"
_REPORTERS = (
    ("[missing ranks: ", "Horovod's stall check"),
    ("Missing ranks:", "Horovod's stall check"),
    ("/task:", "JAX's coordination service"),
    ("missing ranks", "the desync report of torchfrtrace"),
)


def opinions_by_reports(statements: Statements, membership: Membership) -> list[Opinion]:
    """Return what reporters say of others."""
    found = [_desync(statements, membership), *_barriers(statements, membership)]
    return [opinion for opinion in found if opinion is not None]


def _numbers(text: str) -> tuple[int, ...]:
    """Read `0, 2,3` or `[0, 2, 3]`; what stands for left-out ranks is passed over."""
    return tuple(sorted({int(part) for part in text.split(",") if part.strip().isdecimal() and len(part) < 12}))


def _desync(statements: Statements, membership: Membership) -> Opinion | None:
    late: dict[tuple[int, ...], list[_Said]] = {}
    joined: set[int] = set()
    sequence = None
    for rank, event in statements.of_kind(EventKind.WATCHDOG_TIMEOUT):
        fields = event.fields
        if "never_joined" in fields or "not_joined" in fields:
            late.setdefault(_numbers(fields.get("never_joined", fields.get("ranks", ""))), []).append((rank, event))
            sequence = int(fields["not_joined"]) if "not_joined" in fields else sequence
        elif "unfinished" in fields:
            joined.update(_numbers(fields.get("ranks", fields.get("waiter", ""))))
    if not late:
        return _joined(sorted(joined), statements, membership)
    named = tuple(sorted({rank for ranks in late for rank in ranks} - joined))
    lines = [said for told in late.values() for said in told]
    culprits = membership.translate(named, {}) if 0 < len(named) <= max(1, len(joined)) else None
    victims = membership.translate(sorted(joined), {}) or ()
    number = "" if sequence is None else f" #{sequence}"
    reporter = next((who for part, who in _REPORTERS if all(part in event.text for _, event in lines)), _WATCHDOG)
    told = f"did not join collective{number}, according to {reporter}"
    return Opinion(
        witness=Witness.COUNTERS,
        kind=Kind.RANK_NOT_JOINED,
        culprits=culprits or (),
        victims=victims,
        said=f"{ranks_in_words(culprits)} {told}" if culprits else f"{_places(named)} {told}",
        evidence=_evidence(lines, culprits or ()),
        sequence=sequence,
        remarks=(INSIDE,),
    )


def _joined(joined: list[int], statements: Statements, membership: Membership) -> Opinion | None:
    """The report names those who have joined and did not finish, and nobody who has not: they are held together."""
    lines = statements.of_kind(EventKind.WATCHDOG_TIMEOUT)
    told = [(rank, event) for rank, event in lines if {"unfinished", "ranks"} <= event.fields.keys()]
    ranks = membership.translate(joined, {}) if told else None
    if not ranks:
        return None
    sequence = int(told[-1][1].fields["unfinished"])
    return Opinion(
        witness=Witness.COUNTERS,
        kind=Kind.STUCK_TOGETHER,
        culprits=(),
        victims=ranks,
        said=f"{ranks_in_words(ranks)} joined collective #{sequence} but did not finish it, says the watchdog's report",
        evidence=_evidence(told, ranks),
        sequence=sequence,
    )


def _places(ranks: tuple[int, ...]) -> str:
    return f"group {ranks_in_words(ranks)}"


def _evidence(lines: list[_Said], about: tuple[int, ...]) -> tuple[Evidence, ...]:
    return tuple(line_of(event, rank, about) for rank, event in lines[:MOST_LINES])


def _barriers(statements: Statements, membership: Membership) -> Iterable[Opinion | None]:
    """One opinion per speaker: independent reporters count once each."""
    speakers: dict[tuple[int | None, str], dict[tuple[int, ...], LogEvent]] = {}
    for rank, event in statements.of_kind(EventKind.BARRIER_FAILED):
        if "ranks" in event.fields:
            speaker = (rank, event.fields.get("speaker", "0"))
            speakers.setdefault(speaker, {})[_numbers(event.fields["ranks"])] = event
    reached = {
        int(event.fields["waiter"]): rank
        for rank, event in statements.of_kind(EventKind.BARRIER_FAILED)
        if "waiter" in event.fields
    }
    if not speakers:
        yield _barrier_from_outside(statements)
    for (rank, place), told in speakers.items():
        yield _barrier(rank, int(place), told, reached if len(speakers) == 1 else {}, statements, membership)


def _barrier_from_outside(statements: Statements) -> Opinion | None:
    """Who came to the barrier lost rank 0, which alone can say who did not come, and which has given up or is gone."""
    lines = [(rank, event) for rank, event in statements.of_kind(EventKind.BARRIER_FAILED) if "waiter" in event.fields]
    ranks = tuple(sorted({rank for rank, _ in lines if rank is not None}))
    if not lines:
        return None
    places = tuple(sorted({int(event.fields["waiter"]) for _, event in lines}))
    who = ranks_in_words(ranks) if ranks else _places(places)
    lost = next((event.fields["peer"] for _, event in lines if "peer" in event.fields), "0")
    return Opinion(
        witness=Witness.BARRIER,
        kind=Kind.RANK_NOT_JOINED,
        culprits=(),
        victims=ranks,
        said=f"{who} came to a monitored barrier and lost group rank {lost} there",
        evidence=_evidence(lines, ()),
        op="monitored_barrier",
        remarks=(f"group rank {lost} has given up or ended: its own log names who did not come",),
    )


def _unheard(came: set[int], named: tuple[int, ...], membership: Membership) -> int:
    """Ranks of which nothing is known where rank 0 names only the first that did not come, in the order of ranks."""
    if membership.world_size is None:
        return max(0, 2 - len(came))
    return max(0, membership.world_size - len(came) - len(named))


def _barrier(
    rank: int | None,
    place: int,
    told: dict[tuple[int, ...], LogEvent],
    reached: dict[int, int | None],
    statements: Statements,
    membership: Membership,
) -> Opinion | None:
    named = tuple(sorted({each for ranks in told for each in ranks}))
    known = {at: who for at, who in {**reached, place: rank}.items() if who is not None}
    translated = membership.translate(named, known)
    waiters = tuple(sorted({who for who in known.values() if who not in (translated or ())}))
    came = {place, *reached, *range(max(named, default=0))} - set(named)
    missing = len(named) + (
        0 if any("all" in event.fields for event in told.values()) else _unheard(came, named, membership)
    )
    culprits = translated if translated is not None and missing <= len(came) else ()
    elsewhere = tuple(r for r in culprits if any("sequence" in e.fields for e in statements.by_rank.get(r, ())))
    culprits = tuple(r for r in culprits if r not in elsewhere)
    who = ranks_in_words(culprits) if culprits else _places(named)
    reporter = f"group rank {place}" if rank is None else f"rank {rank}"
    named_too = ranks_with(elsewhere, "is", "are")
    remarks = [f"{named_too} named as well, but waited in another operation"] if elsewhere else []
    remarks += (
        ["it reports reaching the barrier, too: late, or its message was lost"] if set(named) & set(reached) else []
    )
    return Opinion(
        witness=Witness.BARRIER,
        kind=Kind.RANK_NOT_JOINED,
        culprits=culprits,
        victims=waiters,
        said=f"{who} did not reach a monitored barrier, according to {reporter}",
        evidence=tuple(line_of(event, rank, culprits) for event in told.values())[:MOST_LINES],
        op="monitored_barrier",
        remarks=tuple(remarks),
    )
