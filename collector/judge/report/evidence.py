"""Step 10, first half: every finding names its evidence. Each function turns one kind of fact into evidence."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.progress import JobMotion, Motion
from collector.align.ras.communicators import RasView
from collector.align.roster import Presence, RankView
from collector.align.stacks.activity import place
from collector.align.stacks.other_threads import child_evidence, thread_evidence
from collector.align.stacks.stack_classes import label_of
from collector.align.stacks.user_frames import user_call
from collector.align.work.bystanders import Bystander
from collector.judge.fault import Fault
from collector.judge.records.compare_sequences import Mismatch
from collector.judge.report.awaited_evidence import awaited_evidence
from collector.judge.report.sentences import say
from collector.judge.report.summaries import still_in_words
from shared.answer.diagnosis import (
    AbsenceEvidence,
    Evidence,
    GroupRef,
    LogEvidence,
    MotionEvidence,
    Place,
    ProcessEvidence,
    SequenceEvidence,
    Side,
    SignatureEvidence,
    StackEvidence,
    WaitEvidence,
)
from shared.answer.words import Kind
from shared.endings import in_words
from shared.isolation import costs_itself
from shared.missing import Reason
from shared.plural import either, ranks_with
from shared.rank_sets import fold, ranks_in_words, unfold
from shared.wire.snapshot import Exited
from shared.wire.stacks import Frame
from shared.wire.trace import LastIssued, Signature

MOST_EDGES = 64
"""Edges listed per finding; a thousand victims of one operation are folded in the sequence evidence anyway."""
MOST_STACKS = 8


@costs_itself(lambda fault, observations: fault.evidence)
def evidence_of(fault: Fault, observations: Observations) -> tuple[Evidence, ...]:
    """Return what `fault` rests on, strongest first. Every culprit is named in at least one item."""
    found: list[Evidence] = []
    if fault.mismatch is not None:
        found.append(_signatures(fault.mismatch, observations))
    elif fault.group is not None and fault.sequence is not None:
        found.append(_sequence(fault, observations))
    found += fault.evidence
    shown = [edge for edge in fault.edges if edge.holders][:MOST_EDGES]
    if shown:
        found.append(_waits(shown))
    found += _absences([observations.roster.ranks[rank] for rank in fault.culprits], live=observations.roster.live)
    found += [item for rank in fault.culprits for item in _of_rank(observations.roster.ranks[rank], observations)]
    if not any(isinstance(each, StackEvidence) for each in fault.evidence):
        found += _stacks(fault.culprits, observations) or _stacks(fault.victims[:1], observations)
    found += awaited_evidence(fault.culprits or fault.victims, observations.activities)
    for rank in (rank for rank in fault.culprits if rank in observations.activities):
        found += thread_evidence(observations.roster.ranks[rank], observations.activities[rank])
    if fault.kind is Kind.STARTUP_INCOMPLETE:
        found += [item for rank in fault.victims for item in child_evidence(observations.roster.ranks[rank])]
        found += map(_of_sibling, observations.siblings[:MOST_STACKS])
    if observations.motion.seconds > 0:
        found.append(_motion(observations))
    elif observations.motion.ranks(Motion.FROZEN):
        found.append(_watched(observations.motion))
    said: dict[tuple[str, str], Evidence] = {}
    for each in found:
        line = each.line if isinstance(each, LogEvidence) else ""
        said.setdefault((each.text, line), each)  # what was found before may be so still
    return tuple(said.values())


def _of_sibling(sibling: Bystander) -> StackEvidence:
    seen = sibling.activity
    frames = tuple(place(frame) for frame in seen.frames)
    return StackEvidence(ranks=str(sibling.beside), text=still_in_words(sibling), thread=seen.thread, frames=frames)


def _signatures(mismatch: Mismatch, observations: Observations) -> SignatureEvidence:
    sides = tuple(_side(ranks, signature, mismatch, observations) for ranks, signature in mismatch.sides)
    ranks = [rank for side, _ in mismatch.sides for rank in side]
    calls = "; ".join(
        f"{ranks_in_words(unfold(side.ranks))}: {side.op} {side.sizes} {side.dtypes}".rstrip() for side in sides
    )
    text = f"at sequence {mismatch.sequence} of group {_named(mismatch.group.ref)} the operations differ: {calls}"
    return SignatureEvidence(
        ranks=fold(ranks), text=text, group=mismatch.group.ref, sequence=mismatch.sequence, sides=sides
    )


def _named(group: GroupRef) -> str:
    return group.name if group.description in ("", "undefined") else f"{group.name} ({group.description})"


def _side(ranks: tuple[int, ...], signature: Signature, mismatch: Mismatch, observations: Observations) -> Side:
    site = _call_site(ranks[0], mismatch, observations)
    return Side(
        call_site=None if site is None else place(site),
        ranks=fold(ranks),
        op=signature.op,
        sizes=f"{_sizes(signature.input_sizes)} -> {_sizes(signature.output_sizes)}",
        dtypes=",".join(dict.fromkeys((*signature.input_dtypes, *signature.output_dtypes))),
    )


def _call_site(rank: int, mismatch: Mismatch, observations: Observations) -> Frame | None:
    """The user's line that issued it: as recorded, else where the rank stands that is in it still."""
    lane, activity = mismatch.group.lanes[rank], observations.activities.get(rank)
    at = lane.at(mismatch.sequence)
    recorded = observations.traces[rank].record(at[-1]).call_site if at else ()
    if recorded:
        return user_call(recorded)
    inside = activity is not None and activity.waits_for_ranks and lane.pending[:1] == (mismatch.sequence,)
    return activity.user if activity is not None and inside else None


def _sizes(sizes: tuple[tuple[int, ...], ...]) -> str:
    shown = " ".join("[" + ",".join(map(str, size)) + "]" for size in sizes[:4])
    return (shown or "[]") + (f" +{len(sizes) - 4}" if len(sizes) > 4 else "")


def _sequence(fault: Fault, observations: Observations) -> SequenceEvidence:
    group, sequence = fault.group, fault.sequence
    assert group is not None and sequence is not None
    issued = group.standing(group.members)
    waiting, absent = group.waiting_at(sequence), group.absent_at(sequence)
    waited = _waited([edge for edge in fault.edges if edge.group is group], sequence, observations)
    where = f"sequence {sequence} of group {_named(group.ref)}"
    came = f"{ranks_with(absent, 'has', 'have')} not" if absent else "no member is known to be absent"
    last_issued = "; ".join(f"{ranks} at {mark}" for mark, ranks in issued.items())
    return SequenceEvidence(
        ranks=fold(group.members),
        text=f"{ranks_with(waiting, 'has', 'have')} issued {where}, {came} (last issued: {last_issued})",
        group=group.ref,
        sequence=sequence,
        issued=issued,
        waiting=fold(waiting),
        absent=fold(absent),
        waited_seconds=waited,
    )


def _waited(edges: Sequence[Edge], sequence: int, observations: Observations) -> float | None:
    begun = [edge.created_ns for edge in edges if edge.sequence == sequence and edge.created_ns]
    last = observations.roster.last_look_ns
    return None if not begun or last is None else round(max(0.0, (last - min(begun)) / 1e9), 1)


def _waits(edges: list[Edge]) -> WaitEvidence:
    together: dict[tuple[str, str, int | None], list[int]] = defaultdict(list)
    for edge in edges:
        together[fold(edge.holders), edge.group.ref.name, edge.sequence].append(edge.waiter)
    said = "; ".join(
        f"{fold(waiters)} {either(waiters, 'waits', 'wait')} for {holders} in group {name}"
        for (holders, name, _), waiters in together.items()
    )
    ranks = {rank for edge in edges for rank in (edge.waiter, *edge.holders)}
    return WaitEvidence(ranks=fold(ranks), text=said, waits=tuple(edge.wait for edge in edges))


def _of_rank(view: RankView, observations: Observations) -> Iterable[Evidence]:
    yield from _ended(view, observations.roster.ras)
    process = view.process
    if process is not None and not view.gone:
        activity = observations.activities[view.rank]
        yield ProcessEvidence(
            ranks=str(view.rank),
            text=f"rank {view.rank} (pid {process.pid}) is {activity.process or activity.label}",
            host=view.host,
            pid=process.pid,
            state=process.state,
        )
        if activity.child:
            yield ProcessEvidence(ranks=str(view.rank), text=activity.child, host=view.host, pid=process.pid)
    line = view.exception
    if line is not None:
        yield LogEvidence(ranks=str(view.rank), text=f"rank {view.rank} logged an exception", line=line)


def _ended(view: RankView, ras: RasView | None) -> Iterable[Evidence]:
    exited = view.exited
    if exited is None:
        return
    taken = "" if exited.identity is not None else _known_by(view.rank, exited, ras)
    told = f"rank {view.rank} (pid {exited.pid}) {in_words(exited)}{taken}{_last_in_words(exited)}"
    yield exit_evidence(view, exited, told)


def _known_by(rank: int, exited: Exited, ras: RasView | None) -> str:
    if ras is not None and rank in ras.places and ras.places[rank][1] == exited.pid:
        return "; NCCL RAS lists it by this pid, which no process on its node has"
    return ", the launcher's only exited child on a node that lacks this rank"


def exit_evidence(view: RankView, exited: Exited, text: str) -> ProcessEvidence:
    """Return the end of a rank's process as evidence."""
    return ProcessEvidence(
        ranks=str(view.rank),
        text=text,
        host=view.host,
        pid=exited.pid,
        exit_code=exited.exit_code,
        signal=exited.signal,
    )


def last_issued(exited: Exited) -> LastIssued | None:
    """Return what a rank issued last, by its memory while it lived."""
    groups = () if exited.last_marks is None else exited.last_marks.groups
    return max(groups, key=lambda mark: mark.issued_at_ns, default=None)


def _last_in_words(exited: Exited) -> str:
    """Say what the rank did last, by its memory while it lived: it may have gone on a little after that was read."""
    last = last_issued(exited)
    if last is None:
        return ""
    number = "" if last.sequence is None else f" #{last.sequence}"
    text = f"; it was last seen to issue {last.op}{number} of group {last.description or last.group}"
    if exited.gone_by_ns is not None and exited.gone_by_ns >= last.issued_at_ns:
        text += f", at most {(exited.gone_by_ns - last.issued_at_ns) / 1e9:.1f} s before it died"
    return text


_NO_DUMP = "left a log at most, where others left dumps or stacks"


def _absences(views: Iterable[RankView], *, live: bool) -> list[AbsenceEvidence]:
    """Those of one node, of whom the same is known, are reported together."""
    together: dict[tuple[Presence, str | None, str], list[int]] = defaultdict(list)
    for view in views:
        if view.gone and view.exited is None:
            missing = None if view.unanswered is None else view.unanswered.missing
            why = "" if missing is None else f" ({missing.reason}: {missing.detail})"
            together[view.presence, view.host, _NO_DUMP if view.undumped else why].append(view.rank)
    return [_absence(ranks, *known, live=live) for known, ranks in together.items()]


def _absence(ranks: list[int], presence: Presence, host: str | None, why: str, *, live: bool) -> AbsenceEvidence:
    told = {"presence": presence.value, "ranks": ranks, "why": why, "on": f" on {host}" if host else "", "host": host}
    known = {"there": host, "live": live, "noted": why}
    words = told | {name: "" for name, value in known.items() if value}
    reason = {Presence.UNREACHABLE: Reason.UNREACHABLE, Presence.EXITED: Reason.GONE}.get(presence, Reason.NOT_FOUND)
    text = say("absence", words)
    return AbsenceEvidence(ranks=fold(ranks), text=text, reason=reason)


def _stacks(ranks: Sequence[int], observations: Observations) -> list[Evidence]:
    together: dict[tuple[Place, ...], list[int]] = defaultdict(list)
    for rank in ranks:
        activity = observations.activities.get(rank)
        if activity is not None and activity.frames:
            together[tuple(map(place, activity.frames))].append(rank)
    return [
        StackEvidence(
            ranks=fold(members),
            text=f"{ranks_in_words(members)}: {label_of(members, observations.activities)}, at {frames[-1]}",
            thread=observations.activities[members[0]].thread,
            frames=frames,
        )
        for frames, members in list(together.items())[:MOST_STACKS]
    ]


def _watched(motion: JobMotion) -> MotionEvidence:
    """Return what agents saw before the only look: of live ranks alone it is known from one."""
    ranks = motion.ranks(Motion.FROZEN)
    seconds = round(min((motion.idle_seconds[rank] for rank in ranks if rank in motion.idle_seconds), default=0.0), 1)
    text = f"agents had seen {ranks_in_words(ranks)} stand still for at least {seconds:.1f} s before the only look"
    return MotionEvidence(ranks=fold(ranks), text=text, seconds=seconds, moved="", frozen=fold(ranks))


def _as_far_as(motion: JobMotion) -> str:
    """Say how much of the time was compared, where that was little of it, as on a busy machine."""
    compared = motion.compared_seconds
    least = min((compared[rank] for rank in motion.ranks(Motion.FROZEN) if rank in compared), default=motion.seconds)
    return f", of which {least:.1f} s could be compared" if least < motion.seconds / 2 else ""


def _motion(observations: Observations) -> MotionEvidence:
    busy = observations.motion.ranks(Motion.BUSY)
    moved = (*observations.motion.ranks(Motion.ADVANCED), *busy)
    spins = [rank for rank in busy if observations.may_wait(rank) or observations.may_spin(rank)]
    works = [rank for rank in moved if rank not in spins]
    frozen = observations.motion.ranks(Motion.FROZEN)
    seconds = round(observations.motion.seconds, 1)
    stalled = observations.motion.stalled_seconds
    since = "" if stalled is None else f"; the newest operation of any rank is {stalled:.0f} s old"
    at_work = f", {ranks_with(works, 'was', 'were')} at work" if works else ""
    at_work += f", {ranks_in_words(spins)} used the CPU to wait" if spins else ""
    return MotionEvidence(
        ranks=fold((*moved, *frozen)),
        text=f"between looks {seconds:.1f} s apart{_as_far_as(observations.motion)}, "
        f"{ranks_in_words(frozen)} stood still{at_work}{since}",
        seconds=seconds,
        moved=fold(moved),
        frozen=fold(frozen),
    )
