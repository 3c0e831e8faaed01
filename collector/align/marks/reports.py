"""What some say of others: the desync report of the watchdog, and rank 0 at a monitored barrier.

They are one reporter's word, taken from counters or messages that had arrived. The reporter never names itself.
"""

from collections.abc import Iterable

from collector.align.groups.table import GroupView, Lag, Line, Witness
from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import Membership
from shared.isolation import costs_itself
from shared.rank_sets import ranks_in_words
from shared.wire.log_events import EventKind, LogEvent

_WATCHDOG = "the desync report of the watchdog"
_HOROVOD, _JAX = "Horovod's stall check", "JAX's coordination service"
ASKED_FIRST = frozenset({_HOROVOD, _JAX})
"""Reporters whom each rank tells before it calls: they count no calls that have returned."""
_REPORTERS = (
    ("[missing ranks: ", _HOROVOD),
    ("Missing ranks:", _HOROVOD),
    ("Stalled ranks:", _HOROVOD),
    ("[ready ranks: ", _HOROVOD),
    ("/task:", _JAX),
    ("missing ranks", "the desync report of torchfrtrace"),
)
"""By a part of the line, who says so."""


@costs_itself(lambda statements, membership: [])
def lags_by_reports(statements: Statements, membership: Membership) -> list[Lag]:
    """Return who has not come where, by each reporter; nobody is missing where all have come and none got out."""
    return [*_desync(statements, membership), *_barriers(statements, membership)]


def numbers_in(text: str) -> tuple[int, ...]:
    """Read `0, 2,3` or `[0, 2, 3]`; what stands for left-out ranks is passed over."""
    return tuple(sorted({int(part) for part in text.split(",") if part.strip().isdecimal() and len(part) < 12}))


def places_in_words(places: Iterable[int]) -> str:
    """Name members by their places in a group that is not known."""
    return "group ranks " + ranks_in_words(tuple(places)).removeprefix("ranks ").removeprefix("rank ")


def _desync(statements: Statements, membership: Membership) -> Iterable[Lag]:
    late: list[Line] = []
    unfinished: list[Line] = []
    named: set[int] = set()
    joined: set[int] = set()
    told = list(statements.of_kind(EventKind.WATCHDOG_TIMEOUT))
    if any("apart" in event.fields for _, event in told):
        return  # they wait for each other: whoever is named first is as much a victim
    for rank, event in told:
        fields = event.fields
        joined.update(numbers_in(fields.get("ready", "")) if "never_joined" in fields else ())
        if "never_joined" in fields or "not_joined" in fields:
            named.update(numbers_in(fields.get("never_joined", fields.get("ranks", ""))))
            late.append((rank, event))
        elif "unfinished" in fields:
            joined.update(numbers_in(fields.get("ranks", fields.get("waiter", ""))))
            unfinished += [(rank, event)] if "ranks" in fields else []
    named -= joined
    lines = late if named else unfinished
    numbers = [int(n) for _, e in lines if (n := e.fields.get("not_joined" if named else "unfinished")) is not None]
    waiting = membership.translate(sorted(joined), {}) or ()
    if lines and (named or waiting):
        reporters = (who for part, who in _REPORTERS if all(part in event.text for _, event in lines))
        yield Lag(
            GroupView("", witness=Witness.COUNTERS),
            numbers[-1] if numbers else None,
            "collective" + (f" #{numbers[-1]}" if numbers else ""),
            waiting,
            membership.translate(sorted(named), {}) or (),
            came=max(1, len(joined)),
            missing=len(named),
            reporter=next(reporters, _WATCHDOG),
            places=places_in_words(sorted(named)),
            lines=tuple(lines),
        )


def _barriers(statements: Statements, membership: Membership) -> Iterable[Lag]:
    """One lag per speaker: independent reporters count once each."""
    speakers: dict[tuple[int | None, str], dict[tuple[int, ...], LogEvent]] = {}
    for rank, event in statements.of_kind(EventKind.BARRIER_FAILED):
        if "ranks" in event.fields:
            speaker = (rank, event.fields.get("speaker", "0"))
            speakers.setdefault(speaker, {})[numbers_in(event.fields["ranks"])] = event
    reached = {
        int(event.fields["waiter"]): rank
        for rank, event in statements.of_kind(EventKind.BARRIER_FAILED)
        if "waiter" in event.fields
    }
    for (rank, place), told in speakers.items():
        yield _barrier(rank, int(place), told, reached if len(speakers) == 1 else {}, membership)


def _barrier(
    rank: int | None,
    place: int,
    told: dict[tuple[int, ...], LogEvent],
    reached: dict[int, int | None],
    membership: Membership,
) -> Lag:
    named = tuple(sorted({each for ranks in told for each in ranks}))
    known = {at: who for at, who in {**reached, place: rank}.items() if who is not None}
    behind = membership.translate(named, known) or ()
    came = {place, *reached, *range(max(named, default=0))} - set(named)
    every = any("all" in event.fields for event in told.values())
    late = "it reports reaching the barrier, too: late, or its message was lost"
    return Lag(
        GroupView("", witness=Witness.BARRIER, op="monitored_barrier"),
        None,
        "a monitored barrier",
        tuple(sorted({who for who in known.values() if who not in behind})),
        behind,
        came=len(came),
        missing=len(named) + (0 if every else _unheard(came, named, membership)),
        reporter=f"group rank {place}" if rank is None else f"rank {rank}",
        places=places_in_words(named),
        lines=tuple((rank, event) for event in told.values()),
        remarks=(late,) if set(named) & set(reached) else (),
    )


def _unheard(came: set[int], named: tuple[int, ...], membership: Membership) -> int:
    """Ranks of which nothing is known where rank 0 names only the first that did not come, in the order of ranks."""
    if membership.world_size is None:
        return max(0, 2 - len(came))
    return max(0, membership.world_size - len(came) - len(named))
