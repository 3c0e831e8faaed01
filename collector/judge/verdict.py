"""The verdict: `diagnose(snapshots, expected) -> Diagnosis`, a pure function.

The order of snapshots, ranks and dump files never changes the answer. The steps, whose numbers the code carries, and
the modules that take them:

 0. Whose are they? The ranks of several users are never one job.                            job_owner
 1. Account for every rank: seen, stopped, ended, unreachable with its node, or absent.      accounting, absent_ranks
 2. Did anything move? By marks, stacks and beats, and by the job's own rhythm.              progress, slow/
 3. Line up each group by (lane, sequence), inferring members where no dump names them.      process_groups
 4. Same sequence, different signature: the minority against the majority.                   disputes, compare_sequences
 5. Who waits for whom, by record; what the record cannot hold, by stack.                   wait_edges, unrecorded_waits
 6. Follow the edges to the root; a cycle is a deadlock.                                     wait_graph, roots, deadlock
 7. All issued, none completed: stuck together, and nobody is blamed for it.                 stuck_together
 8. Where is the root now, and why?                                                          activity, patterns
 9. Without a recorder, the same from RAS's counts, logs, stacks and process state.          by_ras, by_logs, by_stacks
    Where no rank is seen: of processes whose rank nothing tells.                            by_strays
10. Say it, with its evidence.                                                               report/

What goes before what, where steps 2 to 9 say different things; the code carries these letters:

A. Nothing of the job is seen: there is nothing to judge, but how its ranks ended (`ended_job`). Nobody waits in a job
   that is over, whatever looks before its end showed.
B. Something moved: it is not hung. At most one rank makes the others wait.
C. Records, as far as they blame a rank that somebody looked for; else the counts of RAS. Log lines that name the same
   ranks are added to them and change nobody: what is seen now goes before what was written.
D. Where C blames nobody, log lines and stacks are weighed against each other (step 7 of `by_logs.py`).
E. Where only ranks that nobody looked at are left to blame, nobody is: where to look next is the answer.
F. Culprits that are seen go before those on silent nodes, unless more than silence names these. Who polls a lock file
   waits for the rank that holds it; who waits at a connection, a pipe or for a child, for whoever holds the other end.
G. A fault that may be a pause of a healthy job (`pauses`; `moment_of_dumps`, of files) waits for more looks; one that
   is due does not wait for it. Who demonstrably works holds the others up, and hangs nowhere as far as anybody can
   tell. What was found to be a hang before ranks of it gave up and exited still is (`found_before.py`).
H. Certainty is lowered where a guess is part of it. Nodes and descriptors then add causes and evidence; they blame
   nobody.
"""

from collections.abc import Sequence
from dataclasses import replace

from collector.align.accounting import account_for_ranks
from collector.align.coverage import coverage_of
from collector.align.expected import Expected
from collector.align.groups.device_queues import unfinished
from collector.align.groups.process_groups import line_up
from collector.align.groups.wait_edges import Edge, find_edges, with_owed
from collector.align.job_owner import Whose, one_users
from collector.align.logs.attributed_lines import hear, is_wait
from collector.align.node_facts import node_facts, with_endings
from collector.align.observations import Observations
from collector.align.progress import Motion, motion_of
from collector.align.roster import ByRank, Presence, timed_out
from collector.align.stacks.activity import NOT_SEEN
from collector.align.stacks.barriers import met_at_barriers
from collector.align.stacks.polls import in_remote_call
from collector.align.stacks.rank_activities import activities_of, spread_native, told_by_stores
from collector.align.stacks.stack_classes import classes_of
from collector.align.stacks.tables.row_types import Doing
from collector.checks.all import check_job
from collector.judge.by_lock_files import builds, with_holders
from collector.judge.by_logs import ByLogs, conflicts_by_logs, weighed, with_logs
from collector.judge.by_records import conflicts_of_records, faults_by_record
from collector.judge.by_stacks import faults_by_stacks
from collector.judge.by_strays import with_strays
from collector.judge.certainty import Support, less_sure
from collector.judge.ended_first import how_they_ended
from collector.judge.ended_job import ended_job
from collector.judge.fault import Fault
from collector.judge.found_before import still_hung
from collector.judge.hardware.descriptors import with_descriptors
from collector.judge.hardware.gpus import device_conflicts, with_slow_gpus
from collector.judge.hardware.refine_faults import with_nodes
from collector.judge.moment_of_dumps import lasting_by_files
from collector.judge.pauses import doubt_of_pause
from collector.judge.ras.by_ras import faults_by_ras
from collector.judge.ras.lags import doubt_of, with_counts, with_lags
from collector.judge.records.disputes import settled_disputes_of
from collector.judge.records.stuck_together import may_be_ending
from collector.judge.report.findings import finding_of, sampled_finding, straggler_finding
from collector.judge.report.headline import Interpretation, cannot_tell, headline_of, reason
from collector.judge.report.know_more import steps_to_know_more
from collector.judge.report.summaries import settled_in_words
from collector.judge.report.what_now import action_of
from collector.judge.serving.by_requests import by_requests
from collector.judge.slow.held_up import fair_to_workers
from collector.judge.slow.loops import all_in_loops
from collector.judge.slow.sampled_straggler import find_sampled_straggler
from collector.judge.slow.straggler import find_straggler
from collector.judge.stated.table import stated
from collector.judge.tempered import tempered
from collector.judge.trails.by_trails import with_trails
from collector.judge.unreachable_ranks import beside_the_seen, of_looked_at, waits_for_unseen
from shared.answer.diagnosis import Diagnosis, Gap
from shared.answer.words import Verdict
from shared.isolation import costs_itself, failures_told
from shared.missing import Missing
from shared.rank_sets import ranks_in_words
from shared.shell_commands import listed
from shared.wire.snapshot import NodeSnapshot
from shared.wire.trace import Trace


def diagnose(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Diagnosis:
    """Judge one job from every look at it. Never raises on what a job has written; see the module for the steps.

    `id`, `made_at` and `took_seconds` are the caller's to fill in: this function knows no clock. What fails inside of
    it, which is a fault of ours, costs its own opinion and is told among what is missing.
    """
    with failures_told() as failures:
        diagnosis = _diagnosed(snapshots, expected)
    gaps = tuple(Gap(missing=missing) for missing in failures)
    coverage = diagnosis.coverage.model_copy(update={"missing": (*diagnosis.coverage.missing, *gaps)})
    return diagnosis.model_copy(update={"coverage": coverage}) if gaps else diagnosis


def _nothing_judged(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Diagnosis:
    """Where the ranks themselves could not be read together, there is nothing left to judge."""
    headline = "Cannot tell: unhang failed to put together what was read, which is a fault of its own."
    return Diagnosis(job=expected.job, user=expected.user, verdict=Verdict.CANNOT_TELL, headline=headline)


@costs_itself(_nothing_judged, part="the judge")
def _diagnosed(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Diagnosis:
    whose = one_users(snapshots, expected)  # 0
    reading, observations, logged = _read_one_users(whose)
    snapshots, expected, doubts = whose
    steps = () if reading.findings else steps_to_know_more(reading, observations)
    return Diagnosis(
        job=observations.roster.job,
        user=expected.user,
        owner=observations.roster.owner,
        verdict=reading.verdict,
        state=reading.state,
        headline=headline_of(reading, observations),
        findings=reading.findings,
        action=action_of(reading, steps, observations),
        chain=reading.chain,
        next_steps=steps,
        statements=stated(observations, snapshots, reading),
        stack_classes=classes_of(observations.roster, observations.activities),
        checks=check_job(snapshots, expected),
        coverage=coverage_of(observations.roster, expected, snapshots),
        conflicts=doubts
        + observations.roster.conflicts
        + conflicts_by_logs(reading.findings, logged)
        + conflicts_of_records(observations)
        + device_conflicts(observations),
    )


def read(snapshots: Sequence[NodeSnapshot], expected: Expected) -> tuple[Interpretation, Observations]:
    """The verdict before it is put into words, and the observations it was read from."""
    return _read_one_users(one_users(snapshots, expected))[:2]  # 0


def _read_one_users(whose: Whose) -> tuple[Interpretation, Observations, ByLogs]:
    snapshots, expected, doubts = whose
    with failures_told() as failures:
        observations = set_scene(snapshots, expected)
        logged = ByLogs(observations)
        reading = with_strays(_read(observations, logged), observations, snapshots)
    if failures and reading.verdict is Verdict.NOT_HUNG:
        reading = Interpretation(Verdict.CANNOT_TELL, f"{reading.reason}, but {_PART_FAILED}")
    remarks = (*(doubt.text for doubt in doubts), *((_PART_FAILED,) if failures else ()))
    support = Support.PART_FAILED if failures else Support.OTHER_USERS
    return (_unproven(reading, remarks, support) if remarks else reading), observations, logged


_PART_FAILED = "a part of unhang failed, and what it would have said is not part of this: see the coverage"


def _unproven(reading: Interpretation, remarks: tuple[str, ...], support: Support) -> Interpretation:
    """What may rest on somebody else's processes is not proven, nor what a part that failed may have contradicted."""
    findings = (
        each.model_copy(update={"remarks": (*each.remarks, *remarks), **less_sure(each, support)})
        for each in reading.findings
    )
    return replace(reading, findings=tuple(findings))


def set_scene(snapshots: Sequence[NodeSnapshot], expected: Expected) -> Observations:
    """Steps 1 to 3, 5 and 8: everything that the judging steps look at."""
    roster = account_for_ranks(snapshots, expected)  # 1
    nodes = node_facts(snapshots, roster)
    roster = with_endings(roster, nodes)
    groups = line_up(roster)  # 3
    traces = ByRank(roster.traces, lambda _: Trace())
    seen = spread_native(activities_of(roster.present()), roster.ranks)
    seen = met_at_barriers(told_by_stores(seen, roster.ranks), roster.ranks)
    activities = ByRank(seen, lambda _: NOT_SEEN)  # 8
    motion = motion_of(roster, activities)  # 2
    edges = find_edges(groups, roster, traces, activities)  # 5
    activities = with_owed(activities, edges)
    earlier = (expected.usual_pause_seconds, frozenset(expected.faulty_hosts), expected.found_hung)
    return Observations(roster, motion, groups, traces, activities, edges, nodes, hear(roster), *earlier)


@costs_itself(lambda *_: Interpretation(Verdict.CANNOT_TELL, "unhang failed to judge it"), part="the judge's steps")
def _read(observations: Observations, logged: ByLogs) -> Interpretation:
    if _is_over(observations):
        return ended_job(observations)  # A
    if not observations.activities and not observations.roster.unowned:
        return _nobody_seen(observations)
    if _moves(observations):  # B
        return _moving(observations)
    recorded = faults_by_record(observations)
    shown = with_lags(of_looked_at(recorded, observations), observations)
    faults = with_logs(shown or faults_by_ras(observations), logged)  # C
    by_stacks = [] if faults else faults_by_stacks(observations)
    seen = of_looked_at(by_stacks, observations)
    faults = faults or weighed(logged.faults, with_counts(seen, observations), observations)  # D
    hung = still_hung(faults, observations)
    if not faults and hung is None:  # E
        elsewhere = waits_for_unseen((*recorded, *by_stacks), observations)
        unseen = None if elsewhere is None else _unseen(elsewhere, observations)
        return unseen or by_requests(observations) or _quiet(observations)
    faults = beside_the_seen(faults if hung is None else [hung], observations)  # F
    faults = [with_trails(with_holders(fault, observations), observations) for fault in faults]
    doubts = [None if hung else doubt_of_pause(fault, observations) for fault in faults]  # G
    due = [fault for fault, doubt in zip(faults, doubts, strict=True) if doubt is None]
    first = min((doubt for doubt in doubts if doubt is not None), key=_decided_next, default=None)
    if first is not None and not due:
        return (by_requests(observations) if first.idle else None) or first
    sure = [lasting_by_files(tempered(fault, observations), observations) for fault in due]  # H
    sure = [fair_to_workers(fault, observations) for fault in sure]
    told = [with_descriptors(with_nodes(fault, observations), observations) for fault in sure]
    findings = tuple(finding_of(fault, observations) for fault in told)
    return Interpretation(
        Verdict.HUNG, "", findings=findings, decided_after=None if first is None else first.decided_after
    )


def _decided_next(doubt: Interpretation) -> tuple[float, bool]:
    """Which doubt is told of several: the one that time decides first, and who is held up before who may be idle."""
    return float("inf") if doubt.decided_after is None else doubt.decided_after, doubt.verdict is not Verdict.SLOW


def _is_over(observations: Observations) -> bool:
    views = observations.roster.ranks.values()
    return observations.roster.live and bool(views) and all(view.presence is Presence.EXITED for view in views)


def _nobody_seen(observations: Observations) -> Interpretation:
    roster = observations.roster
    ended = {view.rank: view.exited for view in roster.gone() if view.exited is not None}
    if roster.lost_by_ras:
        return cannot_tell("lost_by_ras", {"lost": ", ".join(roster.lost_by_ras)})
    if ended:
        rest = [rank for rank in roster.ranks if rank not in ended]
        return cannot_tell("some_ended", {"how": how_they_ended(ended), "rest": rest})
    late = listed(roster.unlisted, most=6)
    return cannot_tell("late_nodes" if late else "no_rank", {"late": late})


def _moves(observations: Observations) -> bool:
    """Step 2: new operations, or, where no recorder tells of these, waiters that wake again."""
    if observations.motion.ranks(Motion.ADVANCED):
        return True
    telling = {rank for rank, activity in observations.activities.items() if activity.doing is not Doing.STORE}
    woken = observations.motion.woken & telling
    if observations.traces:
        return any(in_remote_call(seen) and seen.waits_for_ranks for seen in observations.seen(woken))
    return any(observations.activities[rank].waits_for_ranks for rank in woken) or (bool(telling) and woken == telling)


def _moving(observations: Observations) -> Interpretation:
    hosts = {view.rank: view.host for view in observations.roster.present()}
    straggler = find_straggler(observations.groups, observations.traces, hosts)
    sampled = None if observations.recorded else find_sampled_straggler(observations.roster)
    if straggler is not None:
        finding = straggler_finding(straggler, observations)
    elif sampled is not None:
        finding = sampled_finding(sampled, observations)
    elif not observations.motion.ranks(Motion.ADVANCED) and (circling := all_in_loops(observations)) is not None:
        return Interpretation(Verdict.CANNOT_TELL, circling)
    else:
        return Interpretation(Verdict.NOT_HUNG, "it makes progress", state="running")
    return Interpretation(Verdict.SLOW, "", findings=(with_slow_gpus(finding, observations),))


def _unseen(fault: Fault, observations: Observations) -> Interpretation:
    """All that is seen is that others wait for ranks that nobody looked at. By their logs these may wait, too."""
    waited = [rank for rank in fault.culprits if any(map(is_wait, observations.roster.ranks[rank].logged))]
    undumped = all(observations.roster.ranks[rank].undumped for rank in fault.culprits)
    why = "unseen_waited" if len(waited) == len(fault.culprits) else "undumped" if undumped else "not_examined"
    return cannot_tell(why, {"ranks": fault.culprits, "victims": fault.victims}, unseen=fault.culprits)


def _quiet(observations: Observations) -> Interpretation:
    """Nobody waits for anybody: idle, finished, or not to be told."""
    if unread := _unread(observations):
        return cannot_tell("no_stacks", unread)
    if observations.roster.late:
        parts = (f"{source} of {ranks_in_words(ranks)}" for source, ranks in observations.roster.late.items())
        return cannot_tell("late", {"parts": ", ".join(parts)})
    if not observations.roster.live:
        return Interpretation(Verdict.CANNOT_TELL, doubt_of(observations) or _nothing_shown(observations))
    if not observations.motion.ranks(Motion.BUSY) or observations.roster.gone():
        return cannot_tell("nobody_waits")
    built = builds(observations)
    circling = None if built else all_in_loops(observations)
    if circling is not None:
        return Interpretation(Verdict.CANNOT_TELL, circling)
    return Interpretation(
        Verdict.NOT_HUNG, built or "its ranks are at work and none waits for another", state="running"
    )


def _unread(observations: Observations) -> dict[str, object]:
    """Of live ranks of which no stack was read the one reason, where there is one beside that time ran out."""
    looks = {view.rank: look for view in observations.roster.present() for look in view.looks[-1:] if look.looked_at_ns}
    parts = {rank: look.stacks for rank, look in looks.items()}
    late = {rank for rank, part in parts.items() if timed_out(part)}
    details = {part.detail if isinstance(part, Missing) else "" for rank, part in parts.items() if rank not in late}
    detail = details.pop() if len(details) == 1 else ""
    return {"ranks": sorted(parts.keys() - late), "detail": detail} if detail else {}


def _nothing_shown(observations: Observations) -> str:
    ending = [edge for edge in observations.edges if may_be_ending(edge, observations)]
    unknown = [edge for edge in observations.edges if edge.to_unknown]
    if not observations.traces:
        return reason("no_traces")
    if ending:
        first = ending[0]
        words = {"op": first.signature.op, "sequence": first.sequence, "group": first.group.label}
        return reason("ending", words | {"ranks": {edge.waiter for edge in ending}})
    if unknown:
        return _held_by_unknown(unknown, observations)
    if any(map(unfinished, observations.traces.values())):
        return reason("in_flight")
    over = settled_disputes_of(observations.groups)
    return reason("nothing_in_flight", {"settled": f"; {settled_in_words(over[0])}" if over else ""})


def _held_by_unknown(unknown: list[Edge], observations: Observations) -> str:
    """Who waits for a rank that no dump names, and who waits for them: they are victims themselves."""
    who = {edge.waiter for edge in unknown}
    others = {edge.waiter for edge in observations.edges if {*edge.holders} & who} - who
    words = {"who": who, "op": unknown[0].signature.op, "others": others}
    return reason("held_by_unknown", words | ({"behind": ""} if others else {}))
