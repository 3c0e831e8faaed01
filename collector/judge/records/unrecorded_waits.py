"""Step 5's blind spot: ranks that wait for others in an operation that no recorder holds.

Gloo records neither sends nor receives, no backend records store waits, and a rank whose counter stands at N-1 may be
inside the call for N. The stack decides what such a rank is doing; whom it waits for is not known.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from collector.align.observations import Observations
from collector.align.roster import UNKNOWN, RankView
from collector.align.stacks.activity import place
from collector.align.stacks.tables.row_types import Doing
from collector.align.wait_states import WaitState
from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault, first_edge, kind_of, left_out, waited_in
from collector.judge.records.wait_graph import WaitGraph
from collector.judge.tie_breakers.broken_habit import broken_habit, is_of_gloo, may_owe, passes_unrecorded
from collector.judge.tie_breakers.new_group import RULE, went_past
from collector.judge.tie_breakers.sibling_sends import fewer_by_count
from shared.answer.words import Cause, Kind
from shared.plural import either, ranks_with
from shared.rank_sets import ranks_in_words
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
    groups = [group for group in observations.groups if root in group.lanes and passes_unrecorded(group, observations)]
    if _was_looked_at(root, observations):
        return bool(groups) or (is_of_gloo(root, observations) and not _records_all_groups(root, observations))
    owed = any(may_owe(other, group, observations) for group in groups for other in group.members if other != root)
    waiters = {edge.waiter for edge in observations.edges if root in edge.holders}
    ahead = bool(waiters) and all(observations.traces[rank].on_new_thread for rank in waiters)
    return is_of_gloo(root, observations) and (owed or ahead or not _tells_all_groups(observations.traces[root]))


def _records_all_groups(rank: int, observations: Observations) -> bool:
    """Has its process no group that its record says nothing of? Each of Gloo's has a thread."""
    process = observations.roster.ranks[rank].process
    threads = 0 if process is None else process.group_threads.get("gloo_tcp_loop", 0)
    return 0 < threads <= len({*observations.traces[rank].group})


def _tells_all_groups(trace: Trace) -> bool:
    """Is no group possible that its recorder says nothing of? PyTorch 2.8 and newer name the members of Gloo's groups
    for the one that was made last, without a name: where those are told, it is the world, and the only one.
    """
    used = {*trace.group}
    told = any(group.members is not None for group in trace.groups)
    return told and all(at in used for at, group in enumerate(trace.groups) if group.name)


def _was_looked_at(rank: int, observations: Observations) -> bool:
    return any(look.looked_at_ns is not None for look in observations.roster.ranks[rank].looks)


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
    if all(_are_undumped(fault.culprits, observations) for fault in faults):
        return [*_hidden_faults(tuple(hidden), graph, observations), *faults]
    if len(faults) != 1 or not set(outsiders(observations)) <= set(faults[0].culprits):
        return faults
    waiting = [rank for rank in hidden if observations.state(rank) is WaitState.WAITING]
    if not waiting or not faults[0].victims:
        return faults
    remark = f"{ranks_with(waiting, 'waits', 'wait')}, too, in an operation that no record holds"
    victims = tuple(sorted({*faults[0].victims, *waiting}))
    return [replace(faults[0], victims=victims, remarks=(*faults[0].remarks, remark))]


def _are_undumped(ranks: Sequence[int], observations: Observations) -> bool:
    """Is all that is held against them that there is no dump? Who left one and has not come is no less suspect."""
    views = (observations.roster.ranks[rank] for rank in ranks)
    return not observations.roster.live and all(view.gone and view.exited is None for view in views)


def _hidden_faults(hidden: tuple[int, ...], graph: WaitGraph, observations: Observations) -> list[Fault]:
    """Explain roots that wait unrecorded: someone outside, a call not got past, or each other."""
    unread = tuple(rank for rank in hidden if observations.state(rank) is WaitState.UNKNOWN)
    outside = tuple(rank for rank in outsiders(observations) if rank not in hidden)
    if outside and not (unread and _are_undumped(outside, observations)):
        return [_outsider_fault(outside, hidden, graph, observations)]
    edges = graph.edges_to(hidden)
    base = Fault(
        kind=Kind.RANK_NOT_JOINED,
        culprits=hidden,
        victims=tuple(sorted(graph.victims_of(hidden))),
        certainty=how_sure(Kind.RANK_NOT_JOINED, Support.RECORD_AND_STACKS),
        edges=edges,
    )
    base = waited_in(base, first_edge(edges))
    if unread or any(_peers_unknown(rank, observations) for rank in hidden):
        return [_unmatched_fault(base, hidden, observations, unread=unread)]
    if all(observations.doing(rank) is Doing.STORE for rank in hidden) and len(hidden) >= len(base.victims):
        return [_group_fault(base, hidden, observations)]
    inside = all(
        observations.activities[rank].op in (base.op, None) and observations.doing(rank) is not Doing.STORE
        for rank in hidden
    )
    remark = "its stack shows it waiting in another operation"
    if inside:
        remark = f"{ranks_with(hidden, 'is', 'are')} inside the call and {either(hidden, 'has', 'have')} not left it"
    return [replace(base, cause=Cause.COMMUNICATION if inside else None, remarks=(remark,))]


def _group_fault(base: Fault, hidden: tuple[int, ...], observations: Observations) -> Fault:
    """The many wait in the store: for the few who went past a group that all must make, or for nobody knows whom."""
    odd = went_past(hidden, base.victims, observations)
    where = f"{ranks_with(hidden, 'waits', 'wait')} in the store"
    if not odd:
        everybody = tuple(sorted({*base.victims, *hidden}))
        user = next((seen.user for seen in observations.seen(hidden) if seen.user is not None), None)
        at = "" if user is None else f" at {place(user)}"
        what = "" if base.op is None else f" in {base.op}" + ("" if base.sequence is None else f" #{base.sequence}")
        said = (
            f"{in_store(hidden, observations)}{at}, and "
            f"{ranks_with(base.victims, 'waits', 'wait')} for {either(hidden, 'it', 'them')}{what}"
        )
        named = all(seen.awaited is not None for seen in observations.seen(hidden))
        remark = f"{'' if named else 'which key that is, and '}who should set it, no record tells"
        return replace(base, culprits=(), victims=everybody, cause=Cause.RENDEZVOUS, said=said, remarks=(remark,))
    return replace(
        base,
        culprits=odd,
        victims=hidden,
        certainty=how_sure(base.kind, Support.STACKS),
        cause=Cause.USER_CODE,
        remarks=(f"{where}; {RULE}, and the others have moved on",),
    )


def in_store(ranks: Sequence[int], observations: Observations) -> str:
    """Say what ranks wait for in the store, those that wait for the same together."""
    together: dict[str, list[int]] = defaultdict(list)
    for rank in ranks:
        together[observations.activities[rank].label].append(rank)
    told = [f"{ranks_with(each, 'is', 'are')} {label}" for label, each in [*together.items()][:_MOST_KEYS]]
    return ", ".join(told) + (" …" if len(together) > _MOST_KEYS else "")


def _peers_unknown(rank: int, observations: Observations) -> bool:
    """Does it wait in a send, a receive, or a work handle of which nothing tells whose answer is lacking?"""
    return observations.doing(rank) is Doing.P2P or (
        observations.doing(rank) is Doing.WORK and observations.activities[rank].op is None
    )


def _unmatched_fault(
    base: Fault, hidden: tuple[int, ...], observations: Observations, *, unread: tuple[int, ...]
) -> Fault:
    """Whom they wait for is not recorded: the one who left out what it always did, or nobody can be named."""
    habit = broken_habit(observations) or fewer_by_count(hidden, observations)
    culprits = () if habit is None or habit.rank in hidden else (habit.rank,)
    if unread and not culprits:
        return _unread_fault(base, unread, observations)
    ops = {observations.activities[rank].op for rank in hidden}
    remark = f"{ranks_with(hidden, 'waits', 'wait')} in operations whose peers are not recorded"
    if unread:
        remark = f"{ranks_with(unread, 'may wait', 'may wait')} in operations that are not recorded"
    return replace(
        base,
        kind=Kind.P2P_UNMATCHED,
        culprits=culprits,
        victims=tuple(sorted({*base.victims, *hidden} - {*culprits})),
        certainty=how_sure(Kind.P2P_UNMATCHED, Support.HABIT if culprits else Support.STACKS),
        group=None,
        op=ops.pop() if len(ops) == 1 else None,
        sequence=None,
        cause=Cause.USER_CODE if culprits else Cause.UNKNOWN,
        remarks=(remark, *((str(habit),) if culprits else ())),
    )


def _unread_fault(base: Fault, unread: tuple[int, ...], observations: Observations) -> Fault:
    """Others wait for ranks of which the record does not tell all and the stack nothing: that accuses nobody."""
    what = "what it does was not read" if len(unread) == 1 else "what they do was not read"
    where = "what no recorder holds"
    if not observations.roster.live:
        what, where = (
            f"no stack shows what {either(unread, 'it does', 'they do')}",
            "a send or a receive, which Gloo does not record",
        )
    wait, may = ranks_with(base.victims, "waits", "wait"), either(unread, "it", "they")
    return replace(
        base,
        culprits=(),
        victims=tuple(sorted({*base.victims} - {*unread})),
        certainty=how_sure(base.kind, Support.ELIMINATION),
        cause=Cause.UNKNOWN,
        said=f"{wait} for {ranks_in_words(unread)}, and {what}: {may} may wait, too, in {where}",
    )


def _outsider_fault(
    outside: tuple[int, ...], hidden: tuple[int, ...], graph: WaitGraph, observations: Observations
) -> Fault:
    edges = graph.edges_to(hidden)
    kinds = sorted({kind_of(rank, observations) for rank in outside}, key=lambda kind: kind is Kind.RANK_NOT_JOINED)
    worst = tuple(rank for rank in outside if kind_of(rank, observations) is kinds[0])
    support = Support.ELIMINATION if left_out(worst, observations) else Support.RECORD_AND_STACKS
    wait = ranks_with(hidden, "waits", "wait")
    fault = Fault(
        kind=kinds[0],
        culprits=worst,
        victims=tuple(sorted({edge.waiter for edge in observations.edges} | set(hidden) - set(worst))),
        certainty=how_sure(kinds[0], support),
        edges=edges,
        remarks=(f"{wait} in unrecorded operations; the stacks show no other rank free",),
    )
    return waited_in(fault, first_edge(edges))
