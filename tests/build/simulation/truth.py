"""Who is at fault in a simulated job, and whether the dumps suffice to say so.

The rules, by what records can show:

- *Absent.* A rank that stays away can be named where somebody's record waits for it and its own progress in that
  group is known: it has left a dump that still holds a record of the group, or one from which nothing has been
  overwritten, and none of its own operations is in flight. One that left no dump can be named where somebody
  waits for it and the dumps, or whoever asks, tell of it.
- *Different.* A rank that called something else can be named where at least two others hold a record of the same
  sequence in the same group: two against one. One against one is a tie, which names nobody.
- *Out of order.* A rank that skipped, added or swapped an operation ends in a cycle of waits where no record differs.
  It can be named where at least two others, who hold records from before the fault, took the operations in the usual
  order. What two ranks disagree about is a tie; there all of the cycle may be told.
- *Point-to-point.* A send that was left out and a receive too many look the same: the cycle may be told as a whole.
- *Unrecorded.* Gloo records no point-to-point operations. A rank that waits in one looks like one that has stayed
  away: nothing decides between the two, and it is an innocent all the same.
- *Together.* What everybody has issued blames nobody, but for a kernel that alone has not started, if starts are seen.

A rank whose dump is missing need be named where it is the only one of a job whose size is known, and others wait for
it. Where several are missing nobody looked at them: that others wait for them says nothing about them.
"""

from dataclasses import dataclass, replace

from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Kind, Verdict
from tests.build.simulation.evidence import Evidence, contradicting, cycle_of
from tests.build.simulation.faults import Injected
from tests.build.simulation.program import Operation, Team
from tests.build.simulation.recorder import Entry


@dataclass(frozen=True)
class Truth:
    """What a perfect analyser would say."""

    culprits: frozenset[int]
    kinds: frozenset[Kind]
    decidable: bool
    """Do the records suffice to name exactly the culprits?"""
    why: str
    allowed: frozenset[int] = frozenset()
    """Ranks that may be named besides: the rest of a cycle that nothing breaks."""
    silent: frozenset[int] = frozenset()
    """Ranks whose dumps are missing."""


@dataclass(frozen=True)
class Judgement:
    """A verdict held against the truth."""

    named: frozenset[int]
    innocents: frozenset[int]
    exact: bool
    kind_fits: bool
    hung: bool


def judge(answer: Diagnosis, truth: Truth) -> Judgement:
    """Compare what was said with what is true."""
    named = frozenset(rank for finding in answer.findings for rank in finding.culprit_ranks)
    told = named - (truth.silent - truth.culprits)
    kinds = {f.kind for f in answer.findings if not truth.culprits or truth.culprits & set(f.culprit_ranks)}
    accepted = truth.kinds | (_GONE if truth.silent and not truth.culprits else frozenset())
    return Judgement(
        named=named,
        innocents=named - truth.culprits - truth.allowed - truth.silent,
        exact=told == truth.culprits or bool(truth.allowed and told == truth.culprits | truth.allowed),
        kind_fits=bool(kinds & accepted),
        hung=answer.verdict is Verdict.HUNG,
    )


_NOT_JOINED = frozenset({Kind.RANK_NOT_JOINED, Kind.P2P_UNMATCHED})
_GONE = frozenset({Kind.RANK_MISSING, Kind.RANK_EXITED})
_MISMATCH = frozenset({Kind.COLLECTIVE_MISMATCH})
_SHIFTED = frozenset({Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION, Kind.RANK_NOT_JOINED})
_TOGETHER = frozenset({Kind.STUCK_TOGETHER})
_DEVICE = frozenset({Kind.STUCK_TOGETHER, Kind.RANK_NOT_JOINED})
_UNSENT = frozenset({Kind.P2P_UNMATCHED, Kind.P2P_DEADLOCK, Kind.ORDER_INVERSION, Kind.RANK_NOT_JOINED})


def truth_of(injected: Injected, seen: Evidence) -> Truth:
    """Apply the rules."""
    truth = _RULES[injected.fault](injected, seen)
    hidden = _hidden(seen) - truth.culprits
    return replace(
        truth,
        decidable=truth.decidable and not hidden,
        why=f"{truth.why}; ranks {sorted(hidden)} wait unrecorded" if hidden else truth.why,
        silent=frozenset(seen.layout.world.ranks) - seen.given,
    )


def _hidden(seen: Evidence) -> frozenset[int]:
    """Ranks that wait in operations which are not recorded."""
    waiting = (op for ops in seen.run.issued.values() for op in ops if op.completed_ns is None)
    return frozenset(op.rank for op in waiting if seen.gloo and isinstance(op.call, Operation) and op.call.is_p2p)


def _absent(injected: Injected, seen: Evidence) -> Truth:
    victims = sorted(rank for rank in injected.culprits if any(e.unfinished for e in seen.entries(rank)))
    known = all(_seen_absent(rank, seen) for rank in injected.culprits)
    why = "waited for, and known not to have come" if known else "its progress in the group waited for is overwritten"
    if victims:
        why = f"ranks {victims} have operations in flight, so they look like victims"
    alone = not seen.gloo or len(seen.layout.teams) == 1  # in another group it may wait unrecorded
    return Truth(injected.culprits, _NOT_JOINED, known and alone and not victims, why)


def _seen_absent(rank: int, seen: Evidence) -> bool:
    others = (entry for other in seen.given - {rank} for entry in seen.entries(other))
    return any(entry.unfinished and _waits_for(entry, rank, seen) for entry in others)


def _waits_for(entry: Entry, rank: int, seen: Evidence) -> bool:
    """Does this record show its owner waiting for `rank`, whose own record shows that it has not come?"""
    if rank not in entry.team.ranks:
        return False
    if entry.is_p2p:
        if entry.call is None or entry.call.peer != rank:
            return False
        return rank in seen.run.waiting.get(entry.issued.rank, ()) and rank in seen.given
    return seen.progress_known(rank, entry.team) and seen.issued(rank, entry.team) < entry.collective_seq


def _crashed(injected: Injected, seen: Evidence) -> Truth:
    (rank,) = injected.culprits
    expected = seen.world_told or any(seen.recorders[other].membership for other in seen.given)
    alone = frozenset(seen.layout.world.ranks) - seen.given == {rank}
    waited = any(
        entry.unfinished
        and rank in entry.team.ranks
        and rank in seen.run.waiting.get(other, ())
        and (seen.recorders[other].membership or entry.team.role == "world")
        for other in seen.given
        for entry in seen.entries(other)
    )
    known = waited and expected and alone
    return Truth(
        injected.culprits, _GONE, known, "expected, waited for, and not there" if known else "nobody knows of it"
    )


def _different(injected: Injected, seen: Evidence) -> Truth:
    voters = _voters(injected, seen)
    allowed = frozenset[int]()
    return Truth(injected.culprits, _MISMATCH, voters > 1, f"{voters} others hold the same sequence", allowed)


def _voters(injected: Injected, seen: Evidence) -> int:
    """How many others contradict the culprit at one sequence, in the group where most do; 0: no record differs."""
    (rank,) = injected.culprits
    return max((contradicting(rank, team, seen) for team in seen.layout.of(rank)), default=0)


def _wrong_root(injected: Injected, seen: Evidence) -> Truth:
    assert isinstance(injected.call, Operation)
    kinds = _TOGETHER if injected.call.op == "broadcast" else _TOGETHER | _MISMATCH
    return Truth(injected.culprits, kinds, False, "the root each rank passed is not recorded")


def _wrong_splits(injected: Injected, seen: Evidence) -> Truth:
    team, call, (rank,) = injected.team, injected.call, injected.culprits
    assert isinstance(call, Operation) and team is not None
    mine = [entry for entry in seen.entries(rank) if entry.call is call]
    theirs = {
        other: entry
        for other in team.ranks
        for entry in seen.entries(other)
        if mine and other != rank and entry.team == team and entry.collective_seq == mine[0].collective_seq
    }
    whole = bool(mine) and len(theirs) == team.size - 1
    if len(call.inputs) == 1:
        return Truth(injected.culprits, _MISMATCH if whole else _MISMATCH | _TOGETHER, False, "only sums are on record")
    me = team.group_rank(rank)
    against = [r for r, entry in theirs.items() if mine[0].inputs[team.group_rank(r)] != entry.outputs[me]]
    return Truth(
        injected.culprits,
        _MISMATCH if against else _MISMATCH | _TOGETHER,
        len(against) > 1,
        f"{len(against)} others expect something else of it",
    )


def _out_of_order(injected: Injected, seen: Evidence) -> Truth:
    voters = _voters(injected, seen)
    if voters:
        return Truth(injected.culprits, _SHIFTED, voters > 1, f"{voters} others hold the same sequence, differing")
    cycle = cycle_of(injected.culprits, seen.waiting)
    if not cycle:
        return replace(_absent(injected, seen), kinds=_SHIFTED)
    usual = len(_usual(injected, seen))
    why = f"{usual} others show the usual order"
    return Truth(injected.culprits, _SHIFTED, usual > 1, why, frozenset() if usual > 1 else cycle)


def _usual(injected: Injected, seen: Evidence) -> list[int]:
    """Others with groups of the same role whose records, like the culprit's, reach back to before the fault."""
    assert injected.team is not None
    (rank,) = injected.culprits
    began = _time_of_fault(injected, seen)
    siblings = [team for team in seen.layout.teams if team.role == injected.team.role]
    reaching = [r for team in siblings for r in team.ranks if _reaches_back(r, team, began, seen)]
    return [r for r in reaching if r != rank] if rank in reaching else []


def _reaches_back(rank: int, team: Team, began_ns: int, seen: Evidence) -> bool:
    """Does the dump of `rank` still tell what it did in `team` before a moment?"""
    kept = [entry for entry in seen.entries(rank) if entry.issued.issued_ns < began_ns]
    return any(entry.team == team for entry in kept) or (rank in seen.given and not seen.overwritten(rank))


def _time_of_fault(injected: Injected, seen: Evidence) -> int:
    (rank,) = injected.culprits
    issued = seen.run.issued[rank]
    calls = sum(1 for step in seen.run.programs[rank][: injected.places[rank]] if hasattr(step, "team"))
    return issued[min(calls, len(issued) - 1)].issued_ns


def _unsent(injected: Injected, seen: Evidence) -> Truth:
    cycle = cycle_of(injected.culprits, seen.run.waiting)
    return Truth(injected.culprits, _UNSENT, False, "a send too few and a receive too many look the same", cycle)


def _ring(injected: Injected, seen: Evidence) -> Truth:
    kept = all(any(_is_of_ring(entry) for entry in seen.entries(rank)) for rank in injected.culprits)
    why = "every receive is on record" if kept else "point-to-point operations, or some of them, are not on record"
    return Truth(injected.culprits, frozenset({Kind.P2P_DEADLOCK}), kept, why)


def _is_of_ring(entry: Entry) -> bool:
    """An unfinished receive of its own: no healthy program holds one outside of batches that wait for a ring."""
    return (
        entry.unfinished
        and entry.op == "recv"
        and entry.call is entry.issued.call
        and entry.issued.started_ns is not None
    )


def _dead_kernel(injected: Injected, seen: Evidence) -> Truth:
    assert injected.team is not None
    (rank,) = injected.culprits
    dead = [entry for entry in seen.entries(rank) if entry.issued.never_starts]
    whole = bool(dead) and all(_holds(other, dead[0], seen) for other in injected.team.ranks)
    if whole and all(seen.recorders[other].timing for other in seen.given):
        return Truth(injected.culprits, _DEVICE, True, "every other kernel has started")
    why = "starts are not on record" if whole else "it is overwritten, or a member has left no dump"
    return Truth(frozenset(), _DEVICE, whole, why, injected.culprits)


def _holds(rank: int, one: Entry, seen: Evidence) -> bool:
    return any(
        e.team == one.team and e.collective_seq == one.collective_seq and not e.is_p2p for e in seen.entries(rank)
    )


def _link(injected: Injected, seen: Evidence) -> Truth:
    team = injected.team
    assert team is not None
    stuck = [entry for rank in team.ranks for entry in seen.entries(rank) if entry.unfinished and entry.team == team]
    whole = bool(stuck) and all(_holds(rank, min(stuck, key=_sequence), seen) for rank in team.ranks)
    return Truth(frozenset(), _TOGETHER, whole, "everybody has come" if whole else "a member has left no record of it")


def _sequence(entry: Entry) -> int:
    return entry.collective_seq


_RULES = {
    "stays": _absent,
    "crashes": _crashed,
    "two stay": _absent,
    "wrong op": _different,
    "wrong size": _different,
    "wrong dtype": _different,
    "wrong root": _wrong_root,
    "wrong splits": _wrong_splits,
    "skips": _out_of_order,
    "shuns group": _out_of_order,
    "extra": _out_of_order,
    "inverts": _out_of_order,
    "never sends": _unsent,
    "receives in a ring": _ring,
    "dead kernel": _dead_kernel,
    "link": _link,
}
