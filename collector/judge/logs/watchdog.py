"""Votes by watchdog lines: who waited in another operation than the others, and who was not past what they wait for.

1. At one sequence of one group, the minority's operation or size vs. a clear majority's.
2. A member whose last enqueued operation lies before what the others wait for. One that waits in another group is a
   victim there, and no culprit here. Where more are behind than wait, the few may be the odd ones: nobody is named.
3. Nobody stands out: told, with the number of members whose logs say nothing. In a group of two the one who speaks
   of anything but that wait is the one who did not come.
4. Nobody timed out, and a watchdog is held itself: told.
"""

from collections import defaultdict
from dataclasses import replace

from collector.align.groups.signature_rules import Facts
from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import GroupKey, Membership
from collector.align.logs.watchdog_marks import GroupMarks, Timeout, comparable, marks_of
from collector.judge.logs.vote import Opinion, Witness, line_of
from shared.answer.diagnosis import Evidence, SequenceEvidence, Side, SignatureEvidence
from shared.answer.words import Cause, Kind
from shared.plural import either, ranks_with
from shared.rank_sets import fold, ranks_in_words
from shared.wire.log_events import EventKind

_NO_DIVERGENCE = "the available logs show no divergence"
INSIDE = "a counter moves when the call returns: the rank may be inside the call, which only its native stack shows"
MOST_LINES = 8
"""Lines shown of one opinion."""

_Sides = list[tuple[tuple[int, ...], Timeout]]


def opinions_by_counters(statements: Statements, membership: Membership) -> list[Opinion]:
    """Return what the watchdog lines of each group say."""
    groups = {
        key: marks for key, marks in marks_of(statements).items() if not (membership.is_mixed(key) or marks.mixed)
    }
    mismatches = [opinion for key, marks in groups.items() if (opinion := _mismatch(key, marks, membership))]
    if mismatches:
        return mismatches
    behind = [opinion for key, marks in groups.items() if (opinion := _behind(key, marks, membership))]
    if behind:
        return _rooted(behind, {rank for marks in groups.values() for rank in marks.stuck})
    speakers = frozenset(statements.by_rank)
    together = [opinion for key, marks in groups.items() if (opinion := _together(key, marks, membership, speakers))]
    return together or _stuck_watchdogs(statements)


def _stuck_watchdogs(statements: Statements) -> list[Opinion]:
    """4. Nobody timed out: the thread that would tell so is itself held."""
    told = statements.of_kind(EventKind.WATCHDOG_TIMEOUT)
    lines = [(r, e) for r, e in told if {"stuck_seconds", "unfinished_works"} & e.fields.keys()]
    if not lines:
        return []
    ranks = tuple(sorted({rank for rank, _ in lines if rank is not None}))
    who = ranks_in_words(ranks) if ranks else "a rank that its line does not tell"
    seconds = next((f" for {e.fields['stuck_seconds']} s" for _, e in lines if "stuck_seconds" in e.fields), "")
    return [
        Opinion(
            witness=Witness.COUNTERS,
            kind=Kind.STUCK_TOGETHER,
            culprits=(),
            victims=ranks,
            said=f"the watchdog of {who} made no progress{seconds}",
            evidence=tuple(line_of(event, rank) for rank, event in lines[:MOST_LINES]),
            remarks=(
                "a call of NCCL or CUDA does not return there, or a thread keeps the GIL: its native stack tells",
            ),
        )
    ]


def _mismatch(key: GroupKey, marks: GroupMarks, membership: Membership) -> Opinion | None:
    """1. The earliest sequence at which two members waited for different operations."""
    by_sequence: dict[int, dict[Facts, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, timeout in comparable(marks):
        if timeout.facts is not None:
            by_sequence[timeout.sequence][timeout.facts].append(rank)
    disputed = [sequence for sequence, sides in by_sequence.items() if len(sides) > 1]
    if not disputed:
        return None
    sequence = min(disputed)
    ordered = sorted((tuple(ranks) for ranks in by_sequence[sequence].values()), key=lambda side: (-len(side), side))
    sides = [(ranks, marks.stuck[ranks[0]]) for ranks in ordered]
    voters = sum(map(len, ordered))
    decided = len(ordered[0]) > 1 and 2 * len(ordered[0]) > voters
    culprits = tuple(sorted(rank for side in ordered[1:] for rank in side)) if decided else ()
    ranks = [rank for side in ordered for rank in side]
    told = "; ".join(f"{ranks_in_words(side)}: {_in_words(timeout)}" for side, timeout in sides)
    told = f"at sequence {sequence} of {key} the watchdogs waited for different operations: {told}"
    return Opinion(
        witness=Witness.COUNTERS,
        kind=Kind.COLLECTIVE_MISMATCH,
        culprits=culprits,
        victims=tuple(sorted(set(ranks) - set(culprits))),
        said=_mismatch_said(culprits, sides, sequence, key),
        evidence=(_signature(key, sequence, sides, ranks, told, membership), *_lines(sides)),
        firm=decided and _is_quorum(voters, membership.size_of(key)),
        cause=Cause.USER_CODE,
        op=sides[0][1].op,
        sequence=sequence,
        ref=membership.ref(key, ranks),
    )


def _is_quorum(voters: int, members: int | None) -> bool:
    """Did enough members speak for their majority to be the group's?"""
    return members is None or 2 * voters > members


def _in_words(timeout: Timeout) -> str:
    into, out = timeout.sizes
    sizes = "" if into is None else f" of {into} elements" if into == out else f" of {into} -> {out} elements"
    return f"{timeout.op}{sizes}"


def _mismatch_said(culprits: tuple[int, ...], sides: _Sides, sequence: int, key: GroupKey) -> str:
    if not culprits:
        told = " vs. ".join(f"{ranks_in_words(side)} ({_in_words(timeout)})" for side, timeout in sides)
        return f"the logs disagree on #{sequence} of {key}: {told}, and no side has a majority"
    odd = next(timeout for side, timeout in sides[1:] if set(side) & set(culprits))
    first, agreed = sides[0]
    return (
        f"{ranks_in_words(culprits)} waited in {_in_words(odd)} where {ranks_in_words(first)} waited in "
        f"{_in_words(agreed)} #{sequence} of {key}"
    )


def _signature(
    key: GroupKey, sequence: int, sides: _Sides, ranks: list[int], told: str, membership: Membership
) -> SignatureEvidence:
    return SignatureEvidence(
        ranks=fold(ranks),
        text=told,
        group=membership.ref(key, ranks),
        sequence=sequence,
        sides=tuple(
            Side(ranks=fold(side), op=timeout.op or "", sizes=" -> ".join(s for s in timeout.sizes if s is not None))
            for side, timeout in sides
        ),
    )


def _lines(sides: _Sides) -> list[Evidence]:
    return [line_of(timeout.event, side[0]) for side, timeout in sides[:MOST_LINES]]


def _behind(key: GroupKey, marks: GroupMarks, membership: Membership) -> Opinion | None:
    """2. Who is not past what the others wait for."""
    stuck = dict(comparable(marks))
    awaited = _awaited(stuck)
    if awaited is None:
        return None
    waiting = tuple(sorted(rank for rank, timeout in stuck.items() if timeout.sequence == awaited))
    behind = tuple(sorted(rank for rank, mark in marks.enqueued.items() if mark < awaited and rank not in stuck))
    if not behind:
        return None
    named = behind if len(behind) <= len(waiting) else ()
    first = stuck[waiting[0]]
    told = "; ".join(f"{ranks_in_words((rank,))} at {marks.enqueued[rank]}" for rank in behind[:MOST_LINES])
    op = next((stuck[rank].op for rank in waiting if stuck[rank].op is not None), None)
    what = f"{op or 'the operation'} #{awaited} of {key}"
    reached = f"{ranks_with(named, 'is', 'are')} not past #{marks.enqueued[behind[0]]}"
    said = f"{reached}, and {ranks_in_words(waiting)} waited in {what}"
    if not named:
        said = f"{ranks_in_words(waiting)} waited in {what}, which {ranks_in_words(behind)} had not reached"
    return Opinion(
        witness=Witness.COUNTERS,
        kind=Kind.RANK_NOT_JOINED,
        culprits=named,
        victims=waiting if named else tuple(sorted((*waiting, *behind))),
        said=said,
        evidence=(
            SequenceEvidence(
                ranks=fold((*waiting, *behind)),
                text=f"{ranks_in_words(waiting)} waited for sequence {awaited} of {key}; last enqueued: {told}",
                group=membership.ref(key, (*waiting, *behind)),
                sequence=awaited,
                issued=_issued(marks, waiting, behind),
                waiting=fold(waiting),
                absent=fold(behind),
            ),
            line_of(first.event, waiting[0]),
            *(line_of(marks.lines[rank], rank) for rank in behind[:MOST_LINES]),
        ),
        firm=bool(named) and len(waiting) > max(1, len(named)),
        op=op,
        sequence=awaited,
        ref=membership.ref(key, (*waiting, *behind)),
        remarks=(INSIDE,),
    )


def _awaited(stuck: dict[int, Timeout]) -> int | None:
    """The sequence that most members wait for, the lower of two."""
    counts: dict[int, int] = defaultdict(int)
    for timeout in stuck.values():
        counts[timeout.sequence] += 1
    return max(counts, key=lambda sequence: (counts[sequence], -sequence), default=None)


def _issued(marks: GroupMarks, waiting: tuple[int, ...], behind: tuple[int, ...]) -> dict[str, str]:
    by_mark: dict[str, list[int]] = defaultdict(list)
    for rank in (*waiting, *behind):
        by_mark[str(marks.enqueued[rank]) if rank in marks.enqueued else "unknown"].append(rank)
    return {mark: fold(ranks) for mark, ranks in sorted(by_mark.items())}


def _rooted(behind: list[Opinion], stuck: set[int]) -> list[Opinion]:
    """Follow the waits across groups: who is behind in one and waits in another is a victim."""
    roots = {rank for opinion in behind for rank in opinion.culprits} - stuck
    if roots:
        return [replace(o, culprits=kept) for o in behind if (kept := tuple(r for r in o.culprits if r in roots))]
    return [
        replace(
            opinion,
            culprits=(),
            firm=False,
            victims=tuple(sorted({*opinion.culprits, *opinion.victims})),
            remarks=(*opinion.remarks, "the ranks behind here are waiting in other groups"),
        )
        for opinion in behind
    ]


def _size_by(timeout: Timeout) -> int | None:
    """How many members a group has whose operation gathers from all, or scatters to all, equal parts."""
    into, out = (0 if size is None else int(size) for size in timeout.sizes)
    many, one = (out, into) if timeout.op in ("all_gather", "all_gather_into_tensor") else (into, out)
    spread = timeout.op in ("all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor")
    return many // one if spread and one > 0 and many % one == 0 else None


def _logs_without(silent: int) -> str:
    others = either(silent, "other rank does", f"other {silent} do")
    return f"the logs of the {others} not say where {either(silent, 'it was', 'they were')}"


def _together(key: GroupKey, marks: GroupMarks, membership: Membership, speakers: frozenset[int]) -> Opinion | None:
    """3. All who speak wait in the same operation; one reporter is enough to say what it waited for."""
    stuck = dict(comparable(marks))
    if len({(timeout.sequence, timeout.op) for timeout in stuck.values() if timeout.op is not None}) != 1 or not stuck:
        return None
    ranks = tuple(stuck)
    first = next(timeout for timeout in stuck.values() if timeout.op is not None)
    size = membership.size_of(key) or _size_by(first)
    silent = None if size is None else size - len(ranks)
    rest = f"; {_logs_without(silent)}" if silent else ""
    partner = tuple(rank for rank in speakers if rank not in stuck) if size == 2 and silent == 1 else ()
    partner = partner if len(partner) == 1 and len(speakers) == 2 else ()
    all_known = silent is None and len(ranks) > 1 and speakers == set(ranks)
    if silent is None:
        rest = "; the logs do not show whether these are all its members"
    return Opinion(
        witness=Witness.COUNTERS,
        kind=Kind.STUCK_TOGETHER if silent == 0 or all_known else Kind.RANK_NOT_JOINED,
        culprits=partner,
        victims=ranks,
        said=f"{ranks_in_words(ranks)} timed out in {_in_words(first)} #{first.sequence} of {key}"
        + (f"; {ranks_in_words(partner)} did not" if partner else rest),
        evidence=tuple(line_of(timeout.event, rank, partner) for rank, timeout in list(stuck.items())[:MOST_LINES]),
        op=first.op,
        sequence=first.sequence,
        ref=membership.ref(key, ranks),
        remarks=(f"{ranks_in_words(partner)} logged other lines, and no wait" if partner else _NO_DIVERGENCE,),
    )
