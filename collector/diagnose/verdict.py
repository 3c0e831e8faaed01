"""The verdict: `diagnose(snapshots, expected) -> Diagnosis`, a pure function.

The order of snapshots, ranks and dump files never changes the answer. The steps, whose numbers the code carries:

 0. Whose are they? The ranks of several users are never one job.                                     whose
 1. Account for every rank: seen, stopped, ended, unreachable with its node, or absent.        roster
 2. Did anything move? By marks, stacks and beats, and by the job's own rhythm.                motion, straggler
 3. Line up each group by (lane, sequence), inferring members where no dump names them.        groups
 4. Same sequence, different signature: the minority against the majority.           disputes, signatures
 5. Who waits for whom, by record; what the record cannot hold, by stack.                 waits, queues, hidden
 6. Follow the edges to the root; a cycle is a deadlock.                  graph, roots, circles, programs, silence
 7. All issued, none completed: stuck together, and nobody is blamed for it.                           stuck
 8. Where is the root now, and why?                                                            activity, patterns
 9. Without a recorder, the same from RAS's counts, logs, stacks and process state.    by_ras, by_logs, by_stacks
10. Say it, with its ground.                                                                   findings, wording
"""

from collections.abc import Sequence
from dataclasses import replace

from collector.diagnose.activities import activities_of, spread_native
from collector.diagnose.by_kernel import with_endings, with_nodes
from collector.diagnose.by_logs import conflicts_by_logs, faults_by_logs, weighed, with_logs
from collector.diagnose.by_ras import faults_by_ras
from collector.diagnose.by_stacks import faults_by_stacks, may_be_slow
from collector.diagnose.check import check_job
from collector.diagnose.classes import classes_of
from collector.diagnose.coverage import coverage_of
from collector.diagnose.devices import device_conflicts, with_slow_gpus
from collector.diagnose.expected import Expected
from collector.diagnose.faults import faults_by_record
from collector.diagnose.fd_tables import under_way, with_descriptors
from collector.diagnose.findings import finding_of, sampled_finding, straggler_finding
from collector.diagnose.groups import line_up
from collector.diagnose.heard.statements import hear
from collector.diagnose.motion import Motion, motion_of
from collector.diagnose.nodes import node_facts
from collector.diagnose.patterns import Doing
from collector.diagnose.queues import unfinished
from collector.diagnose.ras_lags import doubt_of, with_counts
from collector.diagnose.roster import Presence, call_roll
from collector.diagnose.sampled import find_sampled_straggler
from collector.diagnose.scene import Fault, Scene
from collector.diagnose.silence import beside_the_seen
from collector.diagnose.straggler import find_straggler
from collector.diagnose.waits import find_edges
from collector.diagnose.whose import one_users
from collector.diagnose.wording import Reading, headline_of, steps_to_know_more
from shared.diagnosis import Certainty, Conflict, Diagnosis, Finding, Kind, Verdict
from shared.snapshot import NodeSnapshot, RankSnapshot


def diagnose(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Diagnosis:
    """Judge one job from every look at it. Never raises on what a job has written; see the module for the steps.

    `id`, `made_at` and `took_seconds` are the caller's to fill in: this function knows no clock.
    """
    reading, scene = read(snapshots, expected)
    snapshots, expected, doubts = one_users(snapshots, expected)  # 0
    return Diagnosis(
        job=scene.roster.job,
        user=expected.user,
        verdict=reading.verdict,
        state=reading.state,
        headline=headline_of(reading, scene),
        findings=reading.findings,
        next_steps=() if reading.findings else steps_to_know_more(reading, scene),
        stack_classes=classes_of(scene.roster, scene.activities),
        checks=check_job(snapshots, expected),
        coverage=coverage_of(scene.roster, expected, snapshots),
        conflicts=doubts
        + scene.roster.conflicts
        + conflicts_by_logs(reading.findings, scene)
        + device_conflicts(scene),
    )


def read(snapshots: Sequence[NodeSnapshot], expected: Expected) -> tuple[Reading, Scene]:
    """The verdict before it is put into words, and the scene it was read from."""
    snapshots, expected, doubts = one_users(snapshots, expected)  # 0
    scene = set_scene(snapshots, expected)
    reading = _read(scene)
    return (_unproven(reading, doubts) if doubts else reading), scene


def _unproven(reading: Reading, doubts: Sequence[Conflict]) -> Reading:
    """What may rest on somebody else's processes is not proven."""
    remarks = tuple(doubt.text for doubt in doubts)
    return replace(reading, findings=tuple(_supported(finding, remarks) for finding in reading.findings))


def _supported(finding: Finding, remarks: tuple[str, ...]) -> Finding:
    certainty = Certainty.SUPPORTED if finding.certainty is Certainty.PROVEN else finding.certainty
    return finding.model_copy(update={"certainty": certainty, "remarks": (*finding.remarks, *remarks)})


def set_scene(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Scene:
    """Steps 1 to 3, 5 and 8: everything that the judging steps look at."""
    roster = call_roll(snapshots, expected)  # 1
    nodes = node_facts(snapshots, roster)
    roster = with_endings(roster, nodes)
    motion = motion_of(roster)  # 2
    groups = line_up(roster)  # 3
    traces = {rank: view.trace for rank, view in roster.ranks.items() if view.trace is not None}
    activities = spread_native(activities_of(roster.present()), roster.ranks)  # 8
    edges = find_edges(groups, roster, traces, activities)  # 5
    return Scene(roster, motion, groups, traces, activities, edges, nodes, hear(roster))


def _read(scene: Scene) -> Reading:
    if not scene.activities and not scene.roster.unowned:
        return _nobody_left(scene)
    if _moves(scene):
        return _moving(scene)
    faults = with_logs(faults_by_record(scene) or faults_by_ras(scene), scene)
    faults = faults or weighed(faults_by_logs(scene), with_counts(faults_by_stacks(scene), scene), scene)
    if not faults:
        return _quiet(scene)
    faults = beside_the_seen(faults, scene)
    doubts = [_doubt(fault, scene) for fault in faults]
    due = [fault for fault, doubt in zip(faults, doubts, strict=True) if doubt is None]
    first = min((doubt for doubt in doubts if doubt is not None), key=_decided_after, default=None)
    if first is not None and not due:
        return first
    told = [with_descriptors(with_nodes(_tempered(fault, scene), scene), scene) for fault in due]
    findings = tuple(finding_of(fault, scene) for fault in told)
    return Reading(Verdict.HUNG, "", findings=findings, decided_after=None if first is None else first.decided_after)


def _decided_after(doubt: Reading) -> float:
    return float("inf") if doubt.decided_after is None else doubt.decided_after


def _nobody_left(scene: Scene) -> Reading:
    if scene.roster.live and scene.roster.ranks and all(v.presence is Presence.EXITED for v in scene.roster.gone()):
        return Reading(Verdict.NOT_HUNG, "all its ranks ended while they were looked at", state="finished")
    return Reading(Verdict.CANNOT_TELL, "no rank was seen")


def _moves(scene: Scene) -> bool:
    """Step 2: new operations, or, without a recorder, waiters that wake again."""
    if scene.motion.ranks(Motion.ADVANCED):
        return True
    if scene.traces:
        return False
    telling = {rank for rank, activity in scene.activities.items() if activity.doing is not Doing.STORE}
    woken = scene.motion.woken & telling
    return any(scene.activities[rank].waits_for_ranks for rank in woken) or (bool(telling) and woken == telling)


def _moving(scene: Scene) -> Reading:
    straggler = find_straggler(scene.groups, scene.traces, {view.rank: view.host for view in scene.roster.present()})
    if straggler is not None:
        return Reading(Verdict.SLOW, "", findings=(with_slow_gpus(straggler_finding(straggler, scene), scene),))
    sampled = None if scene.traces else find_sampled_straggler(scene.roster)
    if sampled is not None:
        return Reading(Verdict.SLOW, "", findings=(with_slow_gpus(sampled_finding(sampled, scene), scene),))
    return Reading(Verdict.NOT_HUNG, "it makes progress", state="running")


def _quiet(scene: Scene) -> Reading:
    """Nobody waits for anybody: idle, finished, or not to be told."""
    if not scene.roster.live:
        return Reading(Verdict.CANNOT_TELL, doubt_of(scene) or _nothing_shown(scene))
    busy = scene.motion.ranks(Motion.BUSY)
    if busy and not scene.roster.gone():
        return Reading(Verdict.NOT_HUNG, "its ranks are at work and none waits for another", state="running")
    return Reading(Verdict.CANNOT_TELL, "no rank is seen to wait for another, and none moves")


def _nothing_shown(scene: Scene) -> str:
    if not scene.traces:
        return "nothing in stacks or logs shows who waits for whom"
    if any(map(unfinished, scene.traces.values())):
        return "operations were in flight, and what is left of the records does not show who waits for whom"
    return "nothing was in flight when the dumps were taken"


def _doubt(fault: Fault, scene: Scene) -> Reading | None:
    """Is the pause one that the job's own rhythm explains? Returns the verdict in that case, None if it is a hang."""
    if not scene.roster.live:
        return None
    motion = scene.motion
    suspects = tuple(sorted({*fault.culprits} or scene.activities))
    stall = _stall(fault, scene)
    if any(scene.activities[rank].may_be_idle for rank in suspects if rank in scene.activities):
        return Reading(Verdict.CANNOT_TELL, "", waited_for=suspects, stall=stall, idle=True)
    recorded = fault.mismatch is not None or fault.kind is not Kind.COLLECTIVE_MISMATCH
    at_once = fault.kind in _NEVER_PASSES and recorded
    needed = motion.needed(busy=_takes_time(fault, suspects, scene), at_once=at_once)
    sent = under_way(fault, scene) if stall >= needed and fault.kind is Kind.STUCK_TOGETHER else ""
    if sent or (stall >= needed and _is_unseen(fault)):
        needed = motion.needed(busy=True)
    if stall >= needed:
        return None
    if motion.usual_gap_seconds is not None and stall <= motion.usual_gap_seconds:
        return Reading(Verdict.NOT_HUNG, "its pause is no longer than its usual ones", state="running")
    return Reading(Verdict.CANNOT_TELL, sent, waited_for=suspects, stall=stall, decided_after=needed - stall)


def _takes_time(fault: Fault, suspects: tuple[int, ...], scene: Scene) -> bool:
    """Are those who are waited for at work, starting, or where a healthy rank may be for a while?"""
    motions = {rank: scene.motion.by_rank[rank] for rank in suspects if rank in scene.motion.by_rank}
    working = [rank for rank, what in motions.items() if what is Motion.BUSY and not _only_waits(rank, scene)]
    may_pass = any(scene.activities[rank].may_pass for rank in suspects if rank in scene.activities)
    unseen = set(motions.values()) == {Motion.UNKNOWN}
    return bool(working) or may_pass or unseen or _is_starting(fault) or may_be_slow(fault, scene)


def _is_unseen(fault: Fault) -> bool:
    """Is all that is held against a rank that its node is silent? It may be at work there."""
    return fault.kind is Kind.RANK_UNREACHABLE and not fault.ground


def _is_starting(fault: Fault) -> bool:
    return fault.kind is Kind.STARTUP_INCOMPLETE


def _stall(fault: Fault, scene: Scene) -> float:
    if _is_starting(fault):
        ages = [_age(look) for view in scene.roster.present() for look in view.looks[-1:]]
        return min((age for age in ages if age is not None), default=scene.motion.seconds)
    return scene.motion.stall(rank for rank in fault.victims if scene.doing(rank) is not Doing.STORE)


def _age(look: RankSnapshot) -> float | None:
    """Seconds since the rank's process began: a job that starts has waited no longer than its youngest rank."""
    begun = look.identity.started_at
    return None if begun is None or look.looked_at_ns is None else max(0.0, look.looked_at_ns / 1e9 - begun)


def _tempered(fault: Fault, scene: Scene) -> Fault:
    """That a rank at work will not come is read from the time it takes, which proves nothing."""
    busy = any(
        scene.motion.by_rank.get(rank) is Motion.BUSY and not _only_waits(rank, scene) for rank in fault.culprits
    )
    passing = busy or any(scene.activities[r].may_pass for r in fault.culprits if r in scene.activities)
    if passing and fault.certainty is Certainty.PROVEN and fault.kind is Kind.RANK_NOT_JOINED:
        return replace(fault, certainty=Certainty.SUPPORTED)
    return fault


_NEVER_PASSES = frozenset({Kind.RANK_EXITED, Kind.RANK_STOPPED, Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION})
"""Kinds of faults that time does not heal: they need no stall to be told from a pause."""


def _only_waits(rank: int, scene: Scene) -> bool:
    """A waiter may spin, or poll a store: its CPU time is no progress."""
    activity = scene.activities.get(rank)
    return activity is not None and activity.may_wait_for_ranks
