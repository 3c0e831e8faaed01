"""Votes by marks: who called something else than the others, and who has not come to what they wait in.

1. Calls that differ at one number of one group.
2. Who is behind, by marks and by what reporters say of others; who waits elsewhere is a victim.
3. Nobody stands out: told, with the number of members whose logs say nothing. In a group of two the one who speaks
   of anything but that wait is the one who did not come.
4. Nobody timed out, and a watchdog is held itself, or rank 0 of a barrier has gone: told.
"""

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from collector.align.groups.table import Call, GroupView, Lag, Line, Witness
from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import Membership
from collector.align.marks.call_lines import tables_by_calls
from collector.align.marks.detail_lines import tables_by_fingerprints
from collector.align.marks.reports import ASKED_FIRST, lags_by_reports, places_in_words
from collector.align.marks.watchdog_lines import tables_by_watchdogs
from collector.judge.logs.vote import Opinion, line_of, opinion_by, voted, with_field, writers_of
from collector.judge.marks.behind import edges_of, lag_in
from collector.judge.marks.sides import Sides, calls_of, difference_in
from shared.answer.diagnosis import Evidence, LogEvidence, SequenceEvidence, Side, SignatureEvidence
from shared.answer.words import Kind
from shared.isolation import costs_itself
from shared.plural import either, ranks_with
from shared.rank_sets import fold, ranks_in_words
from shared.wire.log_events import EventKind

_MOST_LINES = 8
"""Lines shown of one opinion."""
_INSIDE = "a counter moves when the call returns: the rank may be inside the call, which only its native stack shows"
_ONE_FOR_ANOTHER = "one of them may wait for another, as in making a communicator, which no line of theirs shows"
_CALLS_ALONE = "it may also still wait for an earlier operation; these lines show calls, not completions"
_SAYS_MISMATCH = re.compile(r"inconsistent|Detected mismatch between collectives")
_VERBS = {Witness.COUNTERS: "waited in", Witness.CALLS: "called", Witness.FINGERPRINTS: "ran"}


@costs_itself(lambda *_: [])
def opinions_by_marks(statements: Statements, membership: Membership) -> list[Opinion]:
    """Return what all lines say that count a group's operations."""
    counters = tables_by_watchdogs(statements, membership)
    fingerprints = tables_by_fingerprints(statements, membership)
    calls = tables_by_calls(statements, membership.world_size)
    opinions: list[Opinion] = []
    lags: list[Lag] = []
    for tables in (counters, fingerprints, calls):
        differing = [(table, found) for table in tables if (found := difference_in(table)) is not None]
        late = [lag for table in tables if not differing and (lag := lag_in(table)) is not None and lag.behind]
        opinions += [_mismatch(table, *found) for table, found in differing]
        lags += late
        if tables is fingerprints and not differing:
            opinions += _one_sided(statements)
        if tables is counters and not differing and not late:
            speakers = frozenset(statements.by_rank)
            told = [opinion for table in tables if (opinion := _together(table, speakers)) is not None]
            opinions += told or _stuck_watchdogs(statements)
    waiting = {rank for table in counters for rank in (*table.waiting, *table.waits_apart)}
    waiting |= {rank for rank, _ in statements.of_kind(EventKind.COLLECTIVE_MISMATCH) if rank is not None}
    lags += lags_by_reports(statements, membership)
    return opinions + _rooted(lags, waiting, statements) + _barrier_from_outside(statements)


def _mismatch(table: GroupView, number: int, sides: Sides[Hashable]) -> Opinion:
    """1. The earliest number at which two members called something else."""
    calls = calls_of(table, number, sides)
    culprits = () if table.places else sides.odd
    first, agreed = calls[0]
    verb = _VERBS[table.witness]
    group = table.ref_of(sides.ranks)
    told = "; ".join(f"{_who(ranks, table)}: {call.words}" for call, ranks in calls)
    where = f" at{table.at(number).removeprefix(' at')}" if table.title else ""
    words = {"verb": verb, "where": where, "told": told, **({"apart": ""} if sides.odd else {})}
    if sides.odd:
        words |= {"odd": _who(sides.odd, table), "others": _who(agreed, table), "at": table.at(number)}
        words |= {"odd_call": calls[1][0].words, "call": first.words}
    signatures = SignatureEvidence(
        ranks=group.ranks,
        text=f"according to {table.witness}, the ranks {verb} different operations{where}: {told}",
        group=group,
        sequence=number,
        sides=tuple(_side(call, ranks, table) for call, ranks in calls),
    )
    return opinion_by(
        "differ",
        culprits,
        () if table.places else tuple(rank for rank in sides.ranks if rank not in culprits),
        words,
        *(("the ranks in these lines are numbers within an unknown group",) if table.places else ()),
        op=first.op or None,
        witness=table.witness,
        evidence=(signatures, *_own_lines(table, [ranks for _, ranks in calls])),
        firm=bool(culprits) and _is_firm(table, sides),
        sequence=number if table.witness is Witness.COUNTERS else None,
        ref=group if table.title else None,
    )


def _one_sided(statements: Statements) -> list[Opinion]:
    """torch to 1.12 tells what the rank itself ran, and not from which one that differs; a line may be cut off, too."""
    lines = with_field(statements.of_kind(EventKind.COLLECTIVE_MISMATCH), "rank")
    if not lines or "other_rank" in lines[0][1].fields or not _SAYS_MISMATCH.search(lines[0][1].text):
        return []
    event = lines[0][1]
    op = event.fields.get("op")
    return voted("one_sided", lines[:1], victims=(), op=op, ran=op or "another operation")


def _is_firm(table: GroupView, sides: Sides[Hashable]) -> bool:
    """Do the odd ones speak for themselves, as two of the others do at least?"""
    heard = {rank for rank, lane in table.lanes.items() if lane.heard}
    return heard.issuperset(sides.odd) and len(heard.intersection(sides.all[0][1])) > 1


def _who(ranks: Collection[int], table: GroupView) -> str:
    return places_in_words(ranks) if table.places else ranks_in_words(tuple(ranks))


def _side(call: Call, ranks: tuple[int, ...], table: GroupView) -> Side:
    return Side(ranks=table.ref_of(ranks).ranks, op=call.op or "", sizes=call.sizes, dtypes=call.dtypes)


def _own_lines(table: GroupView, sides: Iterable[tuple[int, ...]]) -> Iterable[LogEvidence]:
    """One line of each side."""
    for ranks in list(sides)[:_MOST_LINES]:
        told = ((rank, table.lanes[rank].line) for rank in ranks if table.lanes[rank].heard)
        rank, line = next(((rank, line) for rank, line in told if line is not None), (None, None))
        if line is not None:
            yield line_of(line, None if table.places else rank)


def _rooted(lags: list[Lag], waiting: set[int], statements: Statements) -> list[Opinion]:
    """2. Follow the waits across groups and sources; `waiting`: ranks that say themselves that they are in a call."""
    held = {edge.waiter for edge in edges_of([lag for lag in lags if lag.may_be_named])} | waiting
    opinions = []
    for lag in lags:
        waits = held if lag.table.tells_waits else held | statements.waited
        roots = [rank for rank in lag.behind if rank not in waits]
        named = lag.may_be_named and not _may_wait_for_another(roots, lag)
        opinions.append(_behind(lag, tuple(roots) if named else ()))
    return opinions


def _may_wait_for_another(roots: Sequence[int], lag: Lag) -> bool:
    """2. May one of several wait for another, as in making a communicator, where no more ranks than they wait?"""
    return _is_counted(lag) and 1 < len(roots) >= len(lag.waiting)


def _is_counted(lag: Lag) -> bool:
    """Do watchdogs' counters of the ranks themselves show it?"""
    return lag.table.witness is Witness.COUNTERS and not lag.reporter


def _behind(lag: Lag, culprits: tuple[int, ...]) -> Opinion:
    """2. Who has not come to what the others wait in."""
    table, joined = lag.table, not lag.missing
    victims = [rank for rank in lag.behind if rank not in culprits]
    remarks = []
    if table.witness is not Witness.BARRIER and lag.reporter not in ASKED_FIRST:
        remarks.append(_INSIDE if table.tells_waits else _CALLS_ALONE)
    if len(culprits or lag.behind) > 1 and _is_counted(lag):
        remarks.append(_ONE_FOR_ANOTHER)
    if victims and lag.may_be_named:
        remarks.append(f"{ranks_with(victims, 'is', 'are')} behind, too, but waited in another operation")
    row = "joined" if joined else "reported" if lag.reporter else "behind"
    return opinion_by(
        row,
        culprits,
        sorted({*lag.waiting, *(() if lag.reporter else victims)}),
        _words(lag, culprits),
        *(() if joined else (*remarks, *lag.remarks)),
        op=lag.op,
        witness=table.witness,
        evidence=(*_sequences(lag), *_lines(lag.lines, culprits or lag.waiting if joined else culprits)),
        firm=bool(culprits) and lag.shows_waits and len(lag.waiting) > max(1, len(culprits)),
        sequence=lag.number if table.tells_waits else None,
        ref=None if lag.reporter else table.ref_of((*lag.waiting, *lag.behind)),
    )


def _words(lag: Lag, culprits: tuple[int, ...]) -> Mapping[str, object]:
    table, words = lag.table, {"waiting": lag.waiting, "behind": lag.behind, "what": lag.what, "reporter": lag.reporter}
    if lag.reporter:
        verb = "reach" if table.witness is Witness.BARRIER else "join"
        return words | {"verb": verb, "who": (culprits or lag.behind) if lag.may_be_named else lag.places}
    last = table.written(min(table.issued[rank] for rank in culprits)) if culprits else ""
    return words | {"verb": _VERBS[table.witness], "last": f"{'#' if table.tells_waits else 'opCount '}{last}"}


def _sequences(lag: Lag) -> Iterable[Evidence]:
    if lag.reporter or lag.number is None:
        return
    ranks, table = (*lag.waiting, *lag.behind), lag.table
    told = "; ".join(f"rank {rank} at {table.written(table.issued[rank])}" for rank in lag.behind[:_MOST_LINES])
    yield SequenceEvidence(
        ranks=fold(ranks),
        text=f"{ranks_in_words(lag.waiting)} {_VERBS[table.witness]} {lag.what}; last operation issued: {told}",
        group=table.ref_of(ranks),
        sequence=lag.number,
        issued=table.standing(ranks),
        waiting=fold(lag.waiting),
        absent=fold(lag.behind),
    )


def _lines(lines: Iterable[Line], about: tuple[int, ...] = ()) -> tuple[LogEvidence, ...]:
    return tuple(line_of(event, rank, about) for rank, event in list(lines)[:_MOST_LINES])


def _together(table: GroupView, speakers: frozenset[int]) -> Opinion | None:
    """3. All who speak wait in the same operation; one reporter is enough to say what it waited for."""
    waits = table.waiting
    calls = [call for rank, number in waits.items() if (call := table.call(rank, number)) is not None]
    named = {(number, call.op) for number, call in zip(waits.values(), calls, strict=True) if call.op is not None}
    if len(named) != 1:
        return None
    ranks, number = tuple(waits), named.pop()[0]
    first = next(call for call in calls if call.op is not None)
    silent = _silent(table, ranks)
    partner = tuple(rank for rank in speakers if rank not in waits) if table.size == 2 and silent == 1 else ()
    partner = partner if len(partner) == 1 and len(speakers) == 2 else ()
    all_known = silent is None and len(ranks) > 1 and speakers == set(ranks) == set(range(len(ranks)))
    words = {"call": first.words, "at": table.at(number)} | ({} if silent is None else {"all": ""})
    words |= {"without": f"; {_logs_without(silent, at_least=table.size is None)}"} if silent else {}
    return opinion_by(
        "together",
        partner,
        ranks,
        words,
        op=first.op,
        witness=table.witness,
        kind=Kind.STUCK_TOGETHER if silent == 0 or all_known else Kind.RANK_NOT_JOINED,
        evidence=_lines(((rank, line) for rank in ranks if (line := table.lanes[rank].line) is not None), partner),
        sequence=number,
        ref=table.ref_of(ranks),
    )


def _silent(table: GroupView, ranks: Collection[int]) -> int | None:
    """How many members tell nothing; None: not known. A size that has no room for those who tell is none."""
    if table.size is not None and table.size >= len(ranks):
        return table.size - len(ranks)
    return table.least - len(ranks) if table.least > len(ranks) else None


def _logs_without(silent: int, *, at_least: bool) -> str:
    others = "at least one other rank" if at_least else "the other rank"
    if silent > 1:
        others = f"at least {silent} others" if at_least else f"the other {silent}"
    return f"the logs of {others} do not say where {either(silent, 'it was', 'they were')}"


def _stuck_watchdogs(statements: Statements) -> list[Opinion]:
    """4. Nobody timed out: the thread that would tell so is itself held."""
    told = statements.of_kind(EventKind.WATCHDOG_TIMEOUT)
    lines = [(r, e) for r, e in told if {"stuck_seconds", "unfinished_works"} & e.fields.keys()]
    if not lines:
        return []
    stuck: dict[str, Any] = {
        name: value for _, event in reversed(lines) for name, value in event.fields.items() if name == "stuck_seconds"
    }
    return voted("watchdogs", lines, **stuck)


def _barrier_from_outside(statements: Statements) -> list[Opinion]:
    """4. Who came to the barrier lost rank 0, which alone can say who did not come, and has given up or is gone."""
    told = list(statements.of_kind(EventKind.BARRIER_FAILED))
    lines = with_field(told, "waiter")
    if not lines or any("ranks" in event.fields for _, event in told):
        return []
    ranks = writers_of(lines)
    who = ranks_in_words(ranks) if ranks else places_in_words(sorted({int(e.fields["waiter"]) for _, e in lines}))
    lost = next((event.fields["peer"] for _, event in lines if "peer" in event.fields), "0")
    return voted("barrier", lines, op="monitored_barrier", came=who, lost=lost)
