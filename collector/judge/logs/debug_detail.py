"""Votes by TORCH_DISTRIBUTED_DEBUG=DETAIL: which operation each rank ran, by its own line.

Every rank compares itself with one counterpart, so that all accuse somebody: the line's own side is a statement, the
other side hearsay that counts only for a rank without a line of its own. The majority is right. A sequence number is
compared between own sides only: on the other side 0 means unset.
"""

from collections import defaultdict

from collector.align.logs.attributed_lines import Statements
from collector.align.logs.group_members import Membership
from collector.judge.logs.vote import Opinion, Witness, line_of
from collector.judge.logs.watchdog import MOST_LINES
from shared.answer.diagnosis import GroupRef, LogEvidence, Side, SignatureEvidence
from shared.answer.words import Cause, Kind
from shared.rank_sets import fold, ranks_in_words
from shared.wire.log_events import EventKind, LogEvent

_Facts = tuple[str, str, str, str]
"""Operation, shape, data types, sequence; "" where not told or not compared."""
_Sides = list[tuple[_Facts, tuple[int, ...]]]


def opinions_by_fingerprints(statements: Statements, membership: Membership) -> list[Opinion]:
    """Return the vote of all ranks on which of them ran another operation; ranks are those of the group."""
    lines = [
        (rank, event) for rank, event in statements.of_kind(EventKind.COLLECTIVE_MISMATCH) if "rank" in event.fields
    ]
    speakers: dict[int, int] = {}
    own: dict[int, LogEvent] = {}
    for rank, event in lines:
        place = int(event.fields["rank"])
        if rank is not None and speakers.setdefault(place, rank) != rank:
            return []  # two groups speak, and nothing tells their lines apart
        own[place] = event
    others = {int(e.fields["other_rank"]): e for e in own.values() if "other_rank" in e.fields}
    hearsay = {place: event for place, event in others.items() if place not in own}
    sides = _sides({p: _facts(e) for p, e in own.items()}, {p: _facts(e, "other_") for p, e in hearsay.items()})
    if len(sides) > 1:
        return [_opinion(sides, own, hearsay, speakers, membership)]
    return [_one_sided(*each) for each in lines[:1] if "inconsistent" in each[1].text]


def _one_sided(rank: int | None, event: LogEvent) -> Opinion:
    """torch to 1.12 tells what the rank itself ran, and not from which one that differs."""
    op = event.fields.get("op", "another operation")
    return Opinion(
        witness=Witness.FINGERPRINTS,
        kind=Kind.COLLECTIVE_MISMATCH,
        culprits=(),
        victims=(),
        said=f"the ranks' operations differ: group rank {event.fields['rank']} ran {op}",
        evidence=(line_of(event, rank),),
        cause=Cause.USER_CODE,
        op=event.fields.get("op"),
        remarks=("the line does not tell what the others ran: theirs does",),
    )


def _facts(event: LogEvent, side: str = "") -> _Facts:
    fields = event.fields
    op, shape, dtypes = (fields.get(side + name, "") for name in ("op", "shape", "dtypes"))
    return op, shape, dtypes, "" if side else fields.get("sequence", "")


def _sides(own: dict[int, _Facts], hearsay: dict[int, _Facts]) -> _Sides:
    """Who ran the same: by what they ran, and where all agree on that by when."""
    by_what: dict[_Facts, list[int]] = defaultdict(list)
    for place, facts in (own | hearsay).items():
        by_what[(*facts[:3], "")].append(place)
    if len(by_what) == 1:
        by_what.clear()
        for place, facts in own.items():
            by_what[facts].append(place)
    sides = [(facts, tuple(sorted(places))) for facts, places in by_what.items()]
    return sorted(sides, key=lambda side: (-len(side[1]), side[1]))


def _opinion(
    sides: _Sides,
    own: dict[int, LogEvent],
    hearsay: dict[int, LogEvent],
    speakers: dict[int, int],
    membership: Membership,
) -> Opinion:
    voters = sum(len(places) for _, places in sides)
    decided = len(sides[0][1]) > 1 and 2 * len(sides[0][1]) > voters
    odd = tuple(sorted(place for _, places in sides[1:] for place in places)) if decided else ()
    everyone = tuple(sorted(own | hearsay))
    culprits = membership.translate(odd, speakers) or ()
    ranks = membership.translate(everyone, speakers) or ()
    told = "; ".join(f"{_named(places, ranks != ())}: {_in_words(facts)}" for facts, places in sides)
    sequence = next((int(event.fields["sequence"]) for event in own.values() if "sequence" in event.fields), 0)
    group = GroupRef(name="", description="", ranks=fold(ranks))
    shown = [next((own[p] for p in places if p in own), None) for _, places in sides]
    evidence = SignatureEvidence(
        ranks=fold(ranks),
        text=f"according to the ranks' own mismatch lines, the operations differ: {told}",
        group=group,
        sequence=sequence,
        sides=tuple(
            Side(ranks=fold(membership.translate(places, speakers) or ()), op=f[0], sizes=f"[{f[1]}]", dtypes=f[2])
            for f, places in sides
        ),
    )
    return Opinion(
        witness=Witness.FINGERPRINTS,
        kind=Kind.COLLECTIVE_MISMATCH,
        culprits=culprits,
        victims=tuple(rank for rank in ranks if rank not in culprits),
        said=_said(culprits, sides, told),
        evidence=(evidence, *(_line(event, speakers, culprits) for event in shown[:MOST_LINES] if event is not None)),
        firm=bool(culprits) and set(odd) <= set(own) and sum(p in own for p in sides[0][1]) > 1,
        cause=Cause.USER_CODE,
        op=sides[0][0][0] or None,
        remarks=() if culprits or not odd else ("the ranks in these lines are numbers within an unknown group",),
    )


def _line(event: LogEvent, speakers: dict[int, int], culprits: tuple[int, ...]) -> LogEvidence:
    return line_of(event, speakers.get(int(event.fields["rank"])), culprits)


def _named(places: tuple[int, ...], are_ranks: bool) -> str:
    return ranks_in_words(places) if are_ranks else f"group {ranks_in_words(places)}"


def _in_words(facts: _Facts) -> str:
    op, shape, dtypes, sequence = facts
    number = f" #{sequence}" if sequence else ""
    return f"{op}{number} of [{shape}] {dtypes}".rstrip() if shape or dtypes else f"{op}{number}"


def _said(culprits: tuple[int, ...], sides: _Sides, told: str) -> str:
    if not culprits:
        return f"the ranks ran different operations; which one is wrong is unknown: {told}"
    odd = sides[1][0]
    return f"{ranks_in_words(culprits)} ran {_in_words(odd)} where the others ran {_in_words(sides[0][0])}"
