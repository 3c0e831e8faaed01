"""Step 9 of the verdict: the same questions without a recorder, from stacks and process state.

Weaker evidence, so weaker words: a rank is named only where it stands outside communication while others wait, or
where it is alone in another collective than a clear majority, in a job without smaller groups: in one of those it may
rightly wait for a partner who is the one that strayed. Operations with a root or a peer rightly differ between ranks
and are never held against anyone. Where a rank's stack is not known, the odd one among the rest is not, either.
"""

from collections import defaultdict

from collector.align.groups.signature_rules import TAKES_ALL
from collector.align.observations import Observations
from collector.align.progress import Motion
from collector.align.roster import ByRank, Presence, Roster
from collector.align.stacks.activity import Activity
from collector.align.stacks.polls import BACKWARD, has_device, on_nccl
from collector.align.stacks.tables.row_types import Doing
from collector.judge.by_lock_files import faults_by_lock_files
from collector.judge.certainty import Support, how_sure
from collector.judge.different_places import lines, places, places_as_evidence, places_in_words, waits_for_everybody
from collector.judge.fault import TELLING, Fault, ended_well, kind_of, left_out, shown_by_process
from collector.judge.fault_rows import fault_by
from collector.judge.records.unrecorded_waits import in_store, outsiders
from collector.judge.tie_breakers.new_group import makes_group, others_make_groups, went_past
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.plural import ranks_with

_SYMMETRIC = (*TAKES_ALL, "all_to_all", "monitored_barrier")
_LATE = frozenset({Kind.RANK_MISSING, Kind.RANK_NOT_JOINED})


def no_record(observations: Observations) -> str:
    """Say why this rests on stacks: there are no flight records, not of all ranks, or none that tells."""
    if not observations.recorded:
        return "no flight record shows which operation each rank is in; this rests on stacks alone"
    lacking = [view.rank for view in observations.roster.present() if view.rank not in observations.recorded]
    if lacking:
        have = ranks_with(lacking, "has", "have")
        return f"{have} no flight record, and those of the others do not show who waits; this rests on stacks alone"
    return "the flight records do not show who waits for whom; this rests on stacks alone"


@costs_itself(lambda observations: [])
def faults_by_stacks(observations: Observations) -> list[Fault]:
    """Return the faults that stacks and process states show; empty where nobody waits for anybody."""
    waiting = tuple(filter(observations.may_wait, observations.activities))
    if all(_is_in_backward(rank, observations) for rank in waiting):  # none waits, or each may be at its own work
        return faults_by_lock_files(observations)
    outside = outsiders(observations)
    if outside:
        return _outsider_faults(outside, waiting, observations)
    if observations.wait_for_other_jobs(waiting):
        return [fault_by("other_groups", (), waiting, {"label": observations.activities[waiting[0]].label})]
    if _starting(waiting, observations):
        words = {"record": no_record(observations)}
        return [fault_by("starting", (), waiting, words, op=_common_op(waiting, observations.activities))]
    if len(waiting) < len(observations.roster.ranks):
        return [_partly_known(waiting, observations)]
    if all(observations.doing(rank) is Doing.P2P for rank in waiting) and len(waiting) > 1:
        return [_p2p_fault(waiting, observations)]
    return [
        _in_rendezvous(waiting, observations)
        or _odd_fault(waiting, observations)
        or _shared_fault(waiting, observations)
    ]


def may_be_slow(fault: Fault, observations: Observations) -> bool:
    """All wait, and no record tells for how long: a device may be at work for all of them, or the network."""
    if observations.recorded or fault.kind not in (Kind.STUCK_TOGETHER, Kind.COLLECTIVE_MISMATCH):
        return False
    looks = [look for view in observations.roster.present() for look in view.looks[-1:]]
    return (
        any(map(has_device, looks))
        or bool(observations.motion.carrying)
        or any(observations.doing(rank) is Doing.DEVICE for rank in fault.victims)
    )


def _starting(waiting: tuple[int, ...], observations: Observations) -> bool:
    """Are all who wait still building the default group? A store is waited for later, too."""
    return all(
        observations.doing(rank) is Doing.STORE
        and any(frame.function == "init_process_group" for frame in observations.activities[rank].frames)
        for rank in waiting
    )


def _outsider_faults(outside: tuple[int, ...], waiting: tuple[int, ...], observations: Observations) -> list[Fault]:
    by_kind: dict[Kind, list[int]] = defaultdict(list)
    for rank in outside:
        by_kind[kind_of(rank, observations)].append(rank)
    starting = _starting(waiting, observations)
    lone = _alone_in_a_collective(outside, waiting, observations)
    if lone is not None:
        return [lone]
    faults = []
    for kind, ranks in sorted(by_kind.items(), key=lambda item: item[0] is Kind.RANK_NOT_JOINED):
        named = _named(kind, tuple(ranks), waiting, observations)
        unseen = all(observations.roster.ranks[rank].presence is Presence.UNSEEN for rank in ranks)
        if starting and (unseen or observations.siblings):
            named = ()  # the rendezvous shows that somebody has not come, and not who
        faults.append(
            Fault(
                kind=Kind.STARTUP_INCOMPLETE if starting and kind in _LATE else kind,
                culprits=named,
                victims=tuple(sorted(waiting)),
                certainty=how_sure(kind, _support(kind, named, observations)),
                cause=Cause.RENDEZVOUS if starting and kind is Kind.RANK_MISSING else None,
                op=_common_op(waiting, observations.activities),
                remarks=() if observations.traces and kind is not Kind.RANK_NOT_JOINED else (no_record(observations),),
            )
        )
    return faults


def _alone_in_a_collective(
    outside: tuple[int, ...], waiting: tuple[int, ...], observations: Observations
) -> Fault | None:
    """One rank in a collective that nobody else has come to, while devices hold up all others, wherever these are.

    A launch blocks in any line once the device's queue is full, and so does `.item()`: ranks that stand in several such
    lines, beside others that wait for their devices, are not outside communication. One alone may well be the cause.
    """
    inside = [rank for rank in waiting if _is_symmetric(observations.activities[rank])]
    on_devices = [rank for rank in waiting if observations.doing(rank) is Doing.DEVICE]
    seen = observations.seen(rank for rank in outside if rank not in waiting)
    held = any(one.cause in TELLING for one in seen) or len({one.frames[-1:] for one in seen}) < 2
    if len(inside) != 1 or not on_devices or len(inside) + len(on_devices) < len(waiting) or held:
        return None
    if len(seen) < len(outside):
        return None
    others = tuple(sorted({*waiting, *outside} - {*inside}))
    words = {"its_op": observations.activities[inside[0]].op, "record": no_record(observations)}
    return fault_by("alone_in_a_collective", inside, others, words)


def _named(kind: Kind, ranks: tuple[int, ...], waiting: tuple[int, ...], observations: Observations) -> tuple[int, ...]:
    """Where most are outside, or have ended well, and a few wait, the few may be the odd ones: nobody is named.

    But for those who run calls of other ranks: whoever has called waits for them.
    """
    held = all(seen.cause in TELLING or seen.runs_call for seen in observations.seen(ranks))
    few_wait = kind is Kind.RANK_NOT_JOINED and len(ranks) > len(waiting) and not held
    return () if few_wait or ended_well(kind, ranks, len(waiting), observations) else ranks


def _common_op(ranks: tuple[int, ...], activities: ByRank[Activity]) -> str | None:
    ops = {activities[rank].op for rank in ranks}
    return ops.pop() if len(ops) == 1 else None


def _p2p_fault(waiting: tuple[int, ...], observations: Observations) -> Fault:
    """All receive and nobody sends (or all send and nobody receives): whoever the peers are, it is a deadlock."""
    op = _common_op(waiting, observations.activities)
    if op in ("send", "recv", "isend", "irecv"):
        return fault_by("one_way", waiting, (), op=op)
    return fault_by("in_p2p", (), waiting, {"record": no_record(observations)}, op=op)


def _in_rendezvous(waiting: tuple[int, ...], observations: Observations) -> Fault | None:
    """A few wait in the store while the many wait in collectives, or a few went past a group that the many make."""
    storing = tuple(rank for rank in waiting if observations.doing(rank) is Doing.STORE)
    others = tuple(rank for rank in waiting if rank not in storing)
    if not storing or not others or len(storing) == len(others):
        return None
    few_store = len(storing) < len(others)
    odd, most = (storing, others) if few_store else (went_past(storing, others, observations), storing)
    if not odd:
        return None
    words = {"storing": storing, "others": others, "record": no_record(observations)}
    if few_store and others_make_groups(storing, others, observations):
        return fault_by("groups_in_another_order", (), waiting, {**words, "hidden": storing})
    return fault_by(
        "few_in_store" if few_store else "many_in_store", odd, most, words, op=_common_op(most, observations.activities)
    )


def _odd_fault(waiting: tuple[int, ...], observations: Observations) -> Fault | None:
    """The minority that is in another operation than a clear majority, if there is one.

    Another line with the same operation proves nothing: a rank may rightly wait for its partner in a smaller group.
    Nor does another operation where there are such groups, or may be; nor a backward pass that is at work.
    """
    sides = places(waiting, observations)
    everybodys = all(map(takes_all, (observations.activities[rank] for rank in waiting)))
    if len(sides.all) != 2 or not everybodys or not sides.decided:
        return None
    (usual, largest), (theirs, odd) = sides.all
    if not _has_one_group(waiting, observations.roster) or any(_may_compute(rank, observations) for rank in waiting):
        return None
    words = {"theirs": theirs, "usual": usual, "record": no_record(observations)}
    words |= {"groups": "several"} if observations.groups else {}
    shown, op = places_as_evidence(sides, observations.activities), observations.activities[odd[0]].op
    return fault_by("another_call", odd, largest, words, evidence=shown, op=op)


def _may_compute(rank: int, observations: Observations) -> bool:
    """Is it in a backward pass or the like, and at work there? It may come to its collective yet."""
    return observations.doing(rank) is Doing.WORK and observations.motion.by_rank.get(rank) is Motion.BUSY


def _is_in_backward(rank: int, observations: Observations) -> bool:
    """Does it compute gradients on its own processors, as far as is seen? No collective need be part of that.

    One that waits for a device burns CPU time in the same place.
    """
    activity, looks = observations.activities[rank], observations.roster.ranks[rank].looks
    if activity.c_read or not looks or on_nccl(looks[-1]) or not _may_compute(rank, observations):
        return False
    return any(frame.function == BACKWARD for frame in activity.frames[-1:])


def takes_all(activity: Activity) -> bool:
    """Is it in an operation that every member of its group takes part in, and alike?"""
    return _is_symmetric(activity) or waits_for_everybody(activity)


def _has_one_group(ranks: tuple[int, ...], roster: Roster) -> bool:
    """Has every rank the threads of one process group, and of no second one?"""
    threads = [process.group_threads for rank in ranks if (process := roster.ranks[rank].process) is not None]
    return len(threads) == len(ranks) and all(each and max(each.values()) == 1 for each in threads)


def _is_symmetric(activity: Activity) -> bool:
    return activity.doing is Doing.COLLECTIVE and activity.op is not None and activity.op.startswith(_SYMMETRIC)


def _partly_known(waiting: tuple[int, ...], observations: Observations) -> Fault:
    """Some wait, and what the others do is not known: nobody is stuck together with ranks that nobody has seen."""
    others = [rank for rank in observations.roster.ranks if rank not in waiting]
    op = _common_op(waiting, observations.activities)
    words = {"where": op or "communication", "others": others, "record": no_record(observations)}
    return fault_by("partly_known", (), waiting, words, op=op)


def _shared_fault(waiting: tuple[int, ...], observations: Observations) -> Fault:
    """All wait, alike or apart: what is known of the lines they came from, and of the store, where they wait there."""
    op, sides = _common_op(waiting, observations.activities), places(waiting, observations)
    words: dict[str, object] = {"record": no_record(observations)}
    if len(sides.all) > 1:
        shown = places_as_evidence(sides, observations.activities)
        return fault_by(
            "all_wait_apart", (), waiting, words | {"places": places_in_words(sides)}, op=op, evidence=shown
        )
    sides = lines(waiting, observations)
    labels = {observations.activities[rank].label for rank in waiting}
    if len(sides.all) == 1:
        if any(observations.doing(rank) is not Doing.STORE for rank in waiting):
            return fault_by("all_wait", (), waiting, words, op=op)
        words |= {"label": labels.pop()} if len(labels) == 1 else {"stored": in_store(waiting, observations.activities)}
        return fault_by("all_in_store", (), waiting, words | {"at": sides.all[0][0]}, op=op)
    words |= {"places": places_in_words(sides), "what": op or observations.activities[waiting[0]].label}
    ordered = all(makes_group(rank, observations) for rank in waiting)
    row = "groups_in_other_orders" if ordered else "all_wait_at_lines"
    return fault_by(row, (), waiting, words, op=op, evidence=places_as_evidence(sides, observations.activities))


def _support(kind: Kind, ranks: tuple[int, ...], observations: Observations) -> Support:
    """Return what shows, where no record tells, that these ranks hold up those whose stacks wait."""
    if ranks and shown_by_process(kind, ranks, observations.roster):
        return Support.PROCESS
    if kind is Kind.RANK_NOT_JOINED:
        agreed = ranks and all(observations.activities[rank].kernel_agrees for rank in ranks)
        return Support.STACKS_AND_KERNEL if agreed else Support.STACKS
    if not ranks and observations.siblings:
        return Support.BESIDE
    guessed = kind is Kind.RANK_MISSING and (not observations.roster.live or left_out(ranks, observations))
    return Support.ELIMINATION if guessed else Support.ABSENCE
