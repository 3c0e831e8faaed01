"""Step 9 of the verdict, first voter: NCCL's own counts of launches, and the processes that RAS misses.

1. Counts that move are no hang; counts seen once are none either, unless the stacks say the same. Of a report that
   somebody has kept one rank is told that alone is behind: suspected, for any job may show that for a moment.
2. A process that RAS has given up, or that does not answer it and is not seen to run, while others wait.
3. Per communicator and operation: who has launched less than what more than half have launched. A lag and a lead in
   two operations of one communicator is another operation launched in the place of the others'.
4. Who left a communicator, or never made it, that most of its members are in.
5. Lags lead from rank to rank: who lags here and leads there is a victim.
6. Counts that differ in two reports alike, without a majority, hold their communicator; nobody is named.

Blind: sends, receives and what a CUDA graph replays are not counted, and a launch is no completion. So a rank that its
stack shows waiting is never named for its counts, equal counts are no fault, and where no side is the smaller one
nobody is named: then the counts stand beside what the stacks say.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from collector.align.groups.table import GroupView, Lag
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.ras.communicators import RasGroup, RasView
from collector.align.roster import Presence, Roster
from collector.align.thresholds import LEAST_LAUNCHES_BEHIND, LEAST_VOTES, is_majority
from collector.align.wait_states import WaitState
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Accuser, Fault, first_edge, kind_of, shown_by_process
from collector.judge.fault_rows import fault_by
from collector.judge.marks.behind import edges_of, lag_in
from collector.judge.ras.lags import BLIND, SHORT, lag_evidence, lags_of
from collector.judge.records.wait_graph import WaitGraph
from shared.answer.diagnosis import AbsenceEvidence
from shared.answer.words import Kind
from shared.isolation import costs_itself
from shared.missing import Reason
from shared.plural import ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.ras import RasStatus

_BY_RAS = frozenset({Accuser.RAS})
_LEFT = (RasStatus.NOCOMM, RasStatus.FINALIZE, RasStatus.ABORT)


@costs_itself(lambda observations: [])
def faults_by_ras(observations: Observations) -> list[Fault]:
    """Return the faults that RAS shows; empty where it shows none that may be told."""
    ras = observations.roster.ras
    if ras is None or ras.moved:  # 1
        return []
    lost = _lost_fault(ras, observations)  # 2
    if lost:
        return lost
    lags = [(group, lag) for group in ras.groups for lag in lags_of(group)]  # 3
    return (
        _mismatch_faults(lags, ras)
        or _lag_faults([lag for _, lag in lags], ras, observations)
        or _left_faults(ras, observations)
        or _uneven_faults(ras, observations)
    )


def _lost_fault(ras: RasView, observations: Observations) -> list[Fault]:
    """Step 2."""
    lost = [rank for rank, status in ras.trouble.items() if _is_lost(rank, status, ras, observations.roster)]
    victims = _waiters(observations, without=lost)
    if not lost or not victims:
        return []
    by_kind: dict[Kind, list[int]] = defaultdict(list)
    for rank in lost:
        by_kind[_kind_of_lost(rank, observations)].append(rank)
    return [_lost(kind, tuple(ranks), victims, ras, observations.roster) for kind, ranks in by_kind.items()]


def _is_lost(rank: int, status: RasStatus, ras: RasView, roster: Roster) -> bool:
    view = roster.ranks.get(rank)
    if view is None or view.presence in (Presence.RUNNING, Presence.UNINTERRUPTIBLE):
        return False
    return view.presence is not Presence.RECORDED or status is RasStatus.DEAD or ras.still


def _kind_of_lost(rank: int, observations: Observations) -> Kind:
    """RAS has known its process, so it was started; whether it still runs, nobody here can say."""
    kind = kind_of(rank, observations)
    recorded = observations.roster.ranks[rank].presence is Presence.RECORDED
    return Kind.RANK_UNREACHABLE if recorded or kind is Kind.RANK_MISSING else kind


def _lost(kind: Kind, ranks: tuple[int, ...], victims: tuple[int, ...], ras: RasView, roster: Roster) -> Fault:
    views = [roster.ranks[rank] for rank in ranks]
    elsewhere = all(view.presence is Presence.UNREACHABLE for view in views)
    dead = all(ras.trouble[rank] is RasStatus.DEAD for rank in ranks)
    words = {"places": _places(ranks, ras)} | (
        {"silent": ""} if kind is Kind.RANK_UNREACHABLE and not elsewhere else {}
    )
    sure, shown = (
        how_sure(kind, _of_lost(kind, ranks, roster, dead=dead)),
        [_absence(rank, ras) for rank in ranks],
    )
    own = {"certainty": sure, "evidence": tuple(shown), "named_by": _BY_RAS}
    return fault_by("lost", ranks, victims, words, kind=kind, **own)


def _places(ranks: Sequence[int], ras: RasView) -> str:
    if len(ranks) != 1 or ranks[0] not in ras.places:
        return ranks_in_words(ranks)
    host, pid = ras.places[ranks[0]]
    return f"rank {ranks[0]} (pid {pid} on {host})"


def _absence(rank: int, ras: RasView) -> AbsenceEvidence:
    dead = ras.trouble[rank] is RasStatus.DEAD
    how = "is considered dead by NCCL RAS" if dead else "did not answer NCCL RAS"
    return AbsenceEvidence(ranks=str(rank), text=f"{_places((rank,), ras)} {how}", reason=Reason.UNREACHABLE)


def _mismatch_faults(lags: Sequence[tuple[RasGroup, Lag]], ras: RasView) -> list[Fault]:
    """Step 3: ranks that lag in one operation and lead in another of the same communicator."""
    faults = []
    for group, lag in lags:
        for table in group.launches:
            ahead = lag_in(table)
            many = 0 if ahead is None or ahead.number is None else ahead.number
            leading = {rank for rank, count in table.issued.items() if count > many}
            odd = tuple(rank for rank in lag.behind if rank in leading)
            if odd and set(odd) == set(lag.behind) == leading and ras.still:
                faults.append(_mismatch(odd, lag, table))
    return faults[:1]


def _mismatch(odd: tuple[int, ...], lag: Lag, led: GroupView) -> Fault:
    words = {"led": led.op, "lagged": lag.op, "name": led.name[:SHORT]}
    return _by_counts("launched_another", odd, lag.waiting, words, lag, replace(lag, table=led))


def _by_counts(
    row: str, culprits: tuple[int, ...], victims: tuple[int, ...], words: dict[str, str | None], *lags: Lag
) -> Fault:
    first, shown = lags[0], tuple(map(lag_evidence, lags))
    own = {"op": first.op, "sequence": first.first_lacking, "ref": first.table.ref}
    return fault_by(row, culprits, victims, words | {"blind": BLIND}, evidence=shown, named_by=_BY_RAS, **own)


def _lag_faults(lags: Sequence[Lag], ras: RasView, observations: Observations) -> list[Fault]:
    """Steps 3 and 5."""
    here = {rank for rank, view in observations.roster.ranks.items() if not view.gone}
    edges = edges_of([replace(lag, waiting=tuple(rank for rank in lag.waiting if rank in here)) for lag in lags])
    kept = not observations.roster.live and len(lags) == 1 and _is_alone(lags[0])
    return [
        replace(fault, named_by=_BY_RAS, evidence=tuple(map(lag_evidence, _about(fault, lags))))
        for fault in _root_faults(edges, ras, observations, though_once=kept)
    ]


def _is_alone(lag: Lag) -> bool:
    """Is one rank several launches behind, and are all others level, as those are that wait for it?"""
    counts = {*lag.table.issued.values(), *lag.table.unnamed}
    level = len(counts) == 2 and len(lag.behind) == 1 and len(lag.waiting) >= LEAST_VOTES
    return level and max(counts) - min(counts) >= LEAST_LAUNCHES_BEHIND


def _about(fault: Fault, lags: Sequence[Lag]) -> Sequence[Lag]:
    return [lag for lag in lags if any(edge.group is lag.table for edge in fault.edges)][:4]


def _left_faults(ras: RasView, observations: Observations) -> list[Fault]:
    """Step 4."""
    faults = []
    for group in ras.groups:
        gone = tuple(sorted(rank for status in _LEFT for rank in group.standings.get(status, ())))
        there = (*group.standings.get(RasStatus.RUNNING, ()), *group.standings.get(RasStatus.INIT, ()))
        if gone and is_majority(group.size - len(gone), group.size) and ras.still:
            has = ranks_with(gone, "has", "have")
            lag = Lag(group.view, None, "", tuple(sorted(there)), gone, len(there), len(gone))
            remark = f"{has} left communicator {group.view.name[:SHORT]} or not created it, according to NCCL RAS"
            for fault in _root_faults(edges_of([lag]), ras, observations):
                faults.append(fault.resting_on(Support.COUNTS, op=None, remarks=(remark, BLIND)))
    return faults[:1]


def _uneven_faults(ras: RasView, observations: Observations) -> list[Fault]:
    """Step 6; where stacks are seen, these tell who waits."""
    if not ras.still or any(observations.state(rank) is not WaitState.UNKNOWN for rank in observations.activities):
        return []
    for group in ras.groups:
        for table in group.launches:
            counts = table.issued
            if len({*counts.values(), *table.unnamed}) > 1 and len(table.members) == group.size:
                ends = min(counts.values()), max(counts.values())
                fewest, most = (tuple(rank for rank, count in counts.items() if count == end) for end in ends)
                lag = Lag(table, None, table.op or "", most, fewest, len(most), len(fewest))
                return [_by_counts("uneven_counts", (), table.members, {"told": lag_evidence(lag).text}, lag)]
    return []


def _root_faults(
    edges: tuple[Edge, ...], ras: RasView, observations: Observations, *, though_once: bool = False
) -> list[Fault]:
    """Name the roots that nothing speaks for; where any root may be waiting itself, nobody.

    `though_once`: also where one report is all there is.
    """
    graph = WaitGraph(edges)
    roots = [rank for rank in graph.roots() if rank in observations.roster.ranks]
    if not roots or any(observations.may_wait(rank) for rank in roots):
        return []
    together: dict[tuple[Kind, str, str, int | None], list[int]] = defaultdict(list)
    for root in roots:
        first = first_edge(graph.edges_to([root]))
        where = ("", "", None) if first is None else (first.group.name, first.signature.op, first.sequence)
        together[kind_of(root, observations), *where].append(root)
    found = (_root_fault(key[0], tuple(ranks), graph, ras, observations) for key, ranks in together.items())
    shown = though_once or ras.still  # else the stacks have to agree with the one report
    return [
        each for each in found if each is not None and (shown or _agreed(each.culprits, each.victims, observations))
    ]


def _agreed(culprits: Sequence[int], victims: Sequence[int], observations: Observations) -> bool:
    return all(observations.state(rank) is WaitState.ELSEWHERE for rank in culprits) and any(
        map(observations.may_wait, victims)
    )


def _root_fault(
    kind: Kind, culprits: tuple[int, ...], graph: WaitGraph, ras: RasView, observations: Observations
) -> Fault | None:
    """The fault of roots that are waited for in one operation."""
    leading, victims = graph.edges_to(culprits), tuple(sorted(graph.victims_of(culprits)))
    first = first_edge(leading)
    if first is None:
        return None
    agreed = ras.still and _agreed(culprits, victims, observations)
    return Fault(
        kind=kind,
        culprits=culprits,
        victims=victims,
        certainty=how_sure(kind, _of_counts(kind, culprits, agreed=agreed, observations=observations)),
        edges=leading,
        ref=first.group.ref,
        op=first.signature.op,
        sequence=first.sequence,
        remarks=(BLIND,) if ras.still else (BLIND, "RAS was asked only once: counts differ for a moment in any job"),
    )


def _waiters(observations: Observations, *, without: Sequence[int]) -> tuple[int, ...]:
    """Who waits by their stacks; where no stack was seen, all that are not gone."""
    left = [view.rank for view in observations.roster.present() if view.rank not in without]
    seen = [rank for rank in left if observations.state(rank) is not WaitState.UNKNOWN]
    return tuple(sorted(rank for rank in seen if observations.may_wait(rank)) if seen else left)


def _of_counts(kind: Kind, culprits: tuple[int, ...], *, agreed: bool, observations: Observations) -> Support:
    """Return what shows it beside counts of NCCL RAS; `agreed`: two reports, and the stacks, say the same."""
    if shown_by_process(kind, culprits, observations.roster):
        return Support.PROCESS
    return Support.COUNTS_AND_STACKS if agreed else Support.COUNTS


def _of_lost(kind: Kind, ranks: Sequence[int], roster: Roster, *, dead: bool) -> Support:
    """Return what shows that others wait for processes which do not answer NCCL RAS; `dead`: it has given them up."""
    if shown_by_process(kind, ranks, roster):
        return Support.PROCESS
    views = [roster.ranks[rank] for rank in ranks]
    twice = all(view.presence is Presence.UNREACHABLE for view in views) or (dead and all(view.gone for view in views))
    return Support.ABSENCE if twice else Support.SILENCE
