"""Step 5's blind spot: ranks that wait for others in an operation that no recorder holds.

Gloo records neither sends nor receives, no backend records store waits, and a rank whose counter stands at N-1 may be
inside the call for N. The stack decides what such a rank is doing; whom it waits for is not known.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from collector.align.observations import Observations
from collector.align.roster import UNKNOWN, ByRank, RankView, Roster
from collector.align.stacks.activity import Activity, place
from collector.align.stacks.tables.row_types import Doing
from collector.align.wait_states import WaitState
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault, kind_of, left_out, waited_in
from collector.judge.fault_rows import fault_by
from collector.judge.records.wait_graph import WaitGraph
from collector.judge.tie_breakers.broken_habit import broken_habit, is_of_gloo, may_owe, passes_unrecorded
from collector.judge.tie_breakers.new_group import group_threads, others_make_groups, went_past
from collector.judge.tie_breakers.sibling_sends import fewer_by_count
from shared.answer.words import Kind
from shared.plural import ranks_with
from shared.wire.trace import Trace

_MOST_KEYS = 4


def waits_unrecorded(root: int, observations: Observations) -> bool:
    """Does the stack of a root say that it waits for other ranks, though its record does not?

    Or may it, where its stack was not read, or not far enough to tell: ranks of its groups pass on what nobody records.
    """
    state = observations.state(root)
    return state is WaitState.WAITING or (state is WaitState.UNKNOWN and _may_wait(root, observations))


def _may_wait(root: int, observations: Observations) -> bool:
    """A group of Gloo's that passes nothing else leaves no trace in its record. Of the others, in bare files, those are
    excused who have done as much as ever, and wait themselves. Who waits on a thread that has issued nothing before may
    be ahead of everybody.
    """
    groups = [group for group in observations.groups if root in group.lanes and passes_unrecorded(group)]
    if any(look.looked_at_ns is not None for look in observations.roster.ranks[root].looks):
        return bool(groups) or (is_of_gloo(root, observations.traces) and not _records_all_groups(root, observations))
    owed = any(may_owe(other, group) for group in groups for other in group.members if other != root)
    waiters = {edge.waiter for edge in observations.edges if root in edge.holders}
    ahead = bool(waiters) and all(observations.traces[rank].on_new_thread for rank in waiters)
    return is_of_gloo(root, observations.traces) and (owed or ahead or not _tells_all_groups(observations.traces[root]))


def _records_all_groups(rank: int, observations: Observations) -> bool:
    """Has its process no group that its record says nothing of? Each of Gloo's has a thread."""
    return 0 < group_threads(rank, observations.roster) <= len({*observations.traces[rank].group})


def _tells_all_groups(trace: Trace) -> bool:
    """Is no group possible that its recorder says nothing of? PyTorch 2.8 and newer name the members of Gloo's groups
    for the one that was made last, without a name: where those are told, it is the world, and the only one.
    """
    used = {*trace.group}
    told = any(group.members is not None for group in trace.groups)
    return told and all(at in used for at, group in enumerate(trace.groups) if group.name)


def outsiders(observations: Observations) -> tuple[int, ...]:
    """Ranks that wait for no other rank: gone, stopped, or standing still outside communication.

    Those on silent nodes, or where nobody looked, are among them only where there is nobody
    else: what they do is not known.
    """
    found = [
        view
        for view in observations.roster.ranks.values()
        if (view.gone and not _is_done(view, observations)) or observations.state(view.rank) is WaitState.ELSEWHERE
    ]
    seen = [view for view in found if view.presence not in UNKNOWN]
    return tuple(view.rank for view in seen or found)


def _is_done(view: RankView, observations: Observations) -> bool:
    """Has it ended without a fault, and does by all records nobody wait for it?"""
    well = view.exited is not None and view.exited.exit_code == 0
    return well and bool(observations.traces) and not any(view.rank in edge.holders for edge in observations.edges)


def with_hidden(
    faults: list[Fault], hidden: Sequence[int], graph: WaitGraph, observations: Observations
) -> list[Fault]:
    """Explain roots that wait unrecorded beside `faults`, or in the place of none.

    They are victims of the one fault where only its culprits wait for nobody. With NCCL that is the first use of a
    group: its communicator is made before anything is recorded.
    """
    if not faults:
        return _hidden_faults(tuple(hidden), graph, observations)
    if all(_are_undumped(fault.culprits, observations.roster) for fault in faults):
        return [*_hidden_faults(tuple(hidden), graph, observations), *faults]
    if len(faults) != 1 or not set(outsiders(observations)) <= set(faults[0].culprits):
        return faults
    waiting = [rank for rank in hidden if observations.state(rank) is WaitState.WAITING]
    if not waiting or not faults[0].victims:
        return faults
    remark = f"{ranks_with(waiting, 'waits', 'wait')}, too, in an operation that no record holds"
    victims = tuple(sorted({*faults[0].victims, *waiting}))
    return [replace(faults[0], victims=victims, remarks=(*faults[0].remarks, remark))]


def _are_undumped(ranks: Sequence[int], roster: Roster) -> bool:
    """Is all that is held against them that there is no dump? Who left one and has not come is no less suspect."""
    views = (roster.ranks[rank] for rank in ranks)
    return not roster.live and all(view.gone and view.exited is None for view in views)


def _hidden_faults(hidden: tuple[int, ...], graph: WaitGraph, observations: Observations) -> list[Fault]:
    """Explain roots that wait unrecorded: someone outside, a call not got past, or each other."""
    unread = tuple(rank for rank in hidden if observations.state(rank) is WaitState.UNKNOWN)
    outside = tuple(rank for rank in outsiders(observations) if rank not in hidden)
    if outside and not (unread and _are_undumped(outside, observations.roster)):
        return [_outsider_fault(outside, hidden, graph, observations)]
    victims, own = graph.victims_of(hidden), waited_in(graph.edges_to(hidden))
    if unread or any(_peers_unknown(rank, observations) for rank in hidden):
        return [_unmatched_fault(own, victims, hidden, observations, unread=unread)]
    if all(observations.doing(rank) is Doing.STORE for rank in hidden) and len(hidden) >= len(victims):
        return [_group_fault(own, victims, hidden, observations)]
    if others_make_groups(hidden, victims, observations):
        return [fault_by("groups_in_another_order", (), victims | {*hidden}, {"hidden": hidden}, **own)]
    if len({observations.activities[rank].user for rank in hidden}) > 1:
        return [fault_by("in_calls_apart", (), victims | {*hidden}, {"hidden": hidden}, **own)]
    inside = all(
        observations.activities[rank].op in (own.get("op"), None) and observations.doing(rank) is not Doing.STORE
        for rank in hidden
    )
    return [fault_by("inside_the_call" if inside else "in_another_call", hidden, victims, **own)]


_Own = dict[str, Any]
"""The operation that others wait in, as fields of a fault."""


def _group_fault(own: _Own, victims: frozenset[int], hidden: tuple[int, ...], observations: Observations) -> Fault:
    """The many wait in the store: for the few who went past a group that all must make, or for nobody knows whom."""
    odd = went_past(hidden, tuple(sorted(victims)), observations)
    if odd:
        return fault_by("past_a_group", odd, hidden, **own)
    user = next((seen.user for seen in observations.seen(hidden) if seen.user is not None), None)
    number = own.get("sequence")
    named = all(seen.awaited is not None for seen in observations.seen(hidden))
    words = {
        "stored": in_store(hidden, observations.activities) + ("" if user is None else f" at {place(user)}"),
        "waiting": tuple(sorted(victims)),
        "hidden": hidden,
        "what": f" in {own['op']}{'' if number is None else f' #{number}'}" if own.get("op") else "",
        "unnamed": "" if named else "which key that is, and ",
    }
    return fault_by("in_store_for_nobody", (), victims | {*hidden}, words, **own)


def in_store(ranks: Sequence[int], activities: ByRank[Activity]) -> str:
    """Say what ranks wait for in the store, those that wait for the same together."""
    together: dict[str, list[int]] = defaultdict(list)
    for rank in ranks:
        together[activities[rank].label].append(rank)
    told = [f"{ranks_with(each, 'is', 'are')} {label}" for label, each in [*together.items()][:_MOST_KEYS]]
    return ", ".join(told) + (" …" if len(together) > _MOST_KEYS else "")


def _peers_unknown(rank: int, observations: Observations) -> bool:
    """Does it wait in a send, a receive, or a work handle of which nothing tells whose answer is lacking?"""
    return observations.doing(rank) is Doing.P2P or (
        observations.doing(rank) is Doing.WORK and observations.activities[rank].op is None
    )


def _unmatched_fault(
    own: _Own, victims: frozenset[int], hidden: tuple[int, ...], observations: Observations, *, unread: tuple[int, ...]
) -> Fault:
    """Whom they wait for is not recorded: the one who left out what it always did, or nobody can be named."""
    habit = broken_habit(observations) or fewer_by_count(hidden, observations)
    culprits = () if habit is None or habit.rank in hidden else (habit.rank,)
    if unread and not culprits:
        words = {
            "unread": unread,
            "waiting": tuple(sorted(victims)),
            **({"live": ""} if observations.roster.live else {}),
        }
        return fault_by("unread", (), victims - {*unread}, words, **own)
    ops = {observations.activities[rank].op for rank in hidden}
    op = ops.pop() if len(ops) == 1 else None
    words = {
        "hidden": hidden,
        "habit": "" if habit is None else habit.evidence,
        **({"unread": unread} if unread else {}),
    }
    return fault_by("unmatched", culprits, victims.union(hidden) - {*culprits}, words, op=op, edges=own["edges"])


def _outsider_fault(
    outside: tuple[int, ...], hidden: tuple[int, ...], graph: WaitGraph, observations: Observations
) -> Fault:
    kinds = sorted({kind_of(rank, observations) for rank in outside}, key=lambda kind: kind is Kind.RANK_NOT_JOINED)
    worst = tuple(rank for rank in outside if kind_of(rank, observations) is kinds[0])
    support = Support.ELIMINATION if left_out(worst, observations) else Support.RECORD_AND_STACKS
    victims = {edge.waiter for edge in observations.edges} | set(hidden) - set(worst)
    sure, own = how_sure(kinds[0], support), waited_in(graph.edges_to(hidden))
    return fault_by("outside", worst, victims, {"hidden": hidden}, kind=kinds[0], certainty=sure, **own)
