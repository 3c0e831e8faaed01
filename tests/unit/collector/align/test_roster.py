"""Step 1: every rank is accounted for, attempts are never mixed, and a job's own word is not believed blindly."""

from typing import Any

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected, Unanswered
from collector.align.processes import MOST_RANKS
from collector.align.roster import Presence
from collector.judge.verdict import diagnose
from shared.answer.words import Certainty, Kind
from shared.missing import Missing, Reason
from shared.wire.log_events import EventKind, LogEvent, Logs
from shared.wire.nccl_calls import LoggedCommunicator
from shared.wire.snapshot import Exited, Identity, NodeSnapshot
from shared.wire.trace import Group, LastIssued, Marks, Origin, Signature, Trace
from tests.build.jobs.simulated import USER, WORLD, Collective, Job, Seen, Stay, live_looks

WAITING = {rank: Seen() for rank in range(4)}


def waiting_for(root: int) -> Job:
    steps = {rank: [Collective(WORLD)] * 4 for rank in range(4)}
    steps[root] = [Collective(WORLD), Stay()]  # type: ignore[list-item]
    return Job(steps)


def changed(snapshot: NodeSnapshot, of: int, /, **identity: Any) -> NodeSnapshot:
    """The snapshot with parts of one rank's identity replaced."""
    ranks = tuple(
        seen.model_copy(update={"identity": seen.identity.model_copy(update=identity)})
        if seen.identity.rank == of
        else seen
        for seen in snapshot.ranks
    )
    return snapshot.model_copy(update={"ranks": ranks})


def without(snapshots: list[NodeSnapshot], rank: int, **update: Any) -> list[NodeSnapshot]:
    """The looks as they are when the process of `rank` is not there."""
    return [
        s.model_copy(update={"ranks": tuple(r for r in s.ranks if r.identity.rank != rank), **update})
        for s in snapshots
    ]


def test_processes_of_an_older_attempt_are_left_out_and_told() -> None:
    looks = live_looks(waiting_for(2), WAITING)
    newer = looks
    old = looks[0].ranks[2]
    leftover = old.model_copy(update={"identity": old.identity.model_copy(update={"pid": 77, "attempt": 0})})
    for rank in range(4):
        newer = [changed(look, rank, attempt=1) for look in newer]
    newer[0] = newer[0].model_copy(update={"ranks": (*newer[0].ranks, leftover)})
    roster = account_for_ranks(newer, Expected())
    assert {view.identity.pid for view in roster.ranks.values() if view.identity} == {1000, 1001, 1002, 1003}
    assert any("attempt" in conflict.text for conflict in roster.conflicts)


def test_of_two_processes_that_claim_one_rank_the_newer_counts() -> None:
    looks = live_looks(waiting_for(2), WAITING)
    stale = looks[0].ranks[2]
    stale = stale.model_copy(update={"identity": stale.identity.model_copy(update={"pid": 77, "started_at": 0.5})})
    looks[0] = looks[0].model_copy(update={"ranks": (stale, *looks[0].ranks)})
    roster = account_for_ranks(looks, Expected())
    assert roster.ranks[2].identity is not None
    assert roster.ranks[2].identity.pid == 1002
    assert any("claim rank 2" in conflict.text for conflict in roster.conflicts)


def test_another_job_on_the_same_node_is_not_mixed_in() -> None:
    looks = live_looks(waiting_for(2), WAITING)
    other = [changed(look, 2, job="another") for look in looks]
    roster = account_for_ranks(other, Expected(job="sim"))
    assert roster.ranks[2].presence is Presence.ABSENT


def test_a_rank_that_the_agent_saw_end_has_exited_with_its_signal() -> None:
    identity = Identity(job="sim", rank=2, local_rank=2, host="node-a", pid=1002)
    exited = Exited(pid=1002, identity=identity, signal=9)
    looks = without(live_looks(waiting_for(2), WAITING), 2, exited=(exited,))
    finding = diagnose(looks, Expected(job="sim")).findings[0]
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (Kind.RANK_EXITED, (2,), Certainty.PROVEN)
    assert finding.cause == "signal"
    assert finding.culprits[0].pid == 1002


def test_what_a_rank_issued_last_is_told_of_its_death() -> None:
    """By its memory while it lived; where that tells nothing, nothing is said."""
    identity = Identity(job="sim", rank=2, local_rank=2, host="node-a", pid=1002)
    earlier = LastIssued(group="0", description="world", op="barrier", sequence=9, issued_at_ns=10**18, since_ns=0)
    last = LastIssued(group="4", description="dp", op="all_reduce", sequence=812, issued_at_ns=10**18 + 1, since_ns=0)
    marks = Marks(read_at_ns=10**18 + 10**8, groups=(earlier, last))
    exited = Exited(pid=1002, identity=identity, signal=9, last_marks=marks, gone_by_ns=10**18 + 4 * 10**8)
    looks = without(live_looks(waiting_for(2), WAITING), 2, exited=(exited,))
    told = " ".join(each.text for each in diagnose(looks, Expected(job="sim")).findings[0].evidence)
    issued = "it was last seen to issue all_reduce #812 of group dp, at most 0.4 s before it died"
    assert f"was killed by signal 9 (SIGKILL); {issued}" in told
    silent = exited.model_copy(update={"last_marks": Marks(read_at_ns=10**18)})
    looks = without(live_looks(waiting_for(2), WAITING), 2, exited=(silent,))
    told = " ".join(each.text for each in diagnose(looks, Expected(job="sim")).findings[0].evidence)
    assert "was killed by signal 9" in told
    assert "last seen" not in told


def test_one_zombie_beside_the_ranks_is_the_one_rank_that_the_node_lacks() -> None:
    zombie = Exited(pid=999, signal=9, sibling_jobs=("sim",))
    looks = without(live_looks(waiting_for(2), WAITING), 2, exited=(zombie,))
    finding = diagnose(looks, Expected(job="sim")).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.RANK_EXITED, (2,))


def test_a_zombie_of_another_job_says_nothing() -> None:
    zombie = Exited(pid=999, signal=9, sibling_jobs=("another",))
    looks = without(live_looks(waiting_for(2), WAITING), 2, exited=(zombie,))
    assert diagnose(looks, Expected(job="sim")).findings[0].kind is Kind.RANK_MISSING


def test_a_rank_that_was_there_in_the_first_look_only_has_exited() -> None:
    looks = live_looks(waiting_for(2), WAITING)
    looks[1] = without([looks[1]], 2)[0]
    assert account_for_ranks(looks, Expected()).ranks[2].presence is Presence.EXITED


def test_a_deeper_look_at_a_few_does_not_make_the_others_exited() -> None:
    looks = live_looks(waiting_for(2), WAITING, looks=3)
    looks[2] = looks[2].model_copy(update={"ranks": looks[2].ranks[:1], "whole": False})
    assert all(view.presence is Presence.RUNNING for view in account_for_ranks(looks, Expected()).ranks.values())


def test_ranks_of_a_silent_node_are_unreachable_and_the_node_is_named() -> None:
    job = waiting_for(2)
    looks = live_looks(job, {rank: Seen() for rank in (0, 1)}, world_size=4)
    looks = [changed(changed(look, 0, local_world_size=2), 1, local_world_size=2) for look in looks]
    missing = Missing(source="http://node-b:8471", reason=Reason.TIMED_OUT, detail="no answer within 5 s")
    expected = Expected(job="sim", unanswered=(Unanswered(host="node-b", missing=missing),))
    finding = diagnose(looks, expected).findings[0]
    assert (finding.kind, finding.culprit_ranks) == (Kind.RANK_UNREACHABLE, (2, 3))
    assert {culprit.host for culprit in finding.culprits} == {"node-b"}


def test_with_two_silent_nodes_nobody_says_which_holds_the_rank() -> None:
    looks = live_looks(waiting_for(2), {rank: Seen() for rank in (0, 1)}, world_size=4)
    looks = [changed(changed(look, 0, local_world_size=2), 1, local_world_size=2) for look in looks]
    missing = Missing(source="agent", reason=Reason.UNREACHABLE)
    silent = tuple(Unanswered(host=host, missing=missing) for host in ("node-b", "node-c"))
    finding = diagnose(looks, Expected(job="sim", unanswered=silent)).findings[0]
    assert {culprit.host for culprit in finding.culprits} == {None}


def test_impossible_ranks_and_world_sizes_cost_nothing() -> None:
    looks = live_looks(waiting_for(2), WAITING)
    hostile = [changed(changed(look, 1, rank=-5), 3, world_size=10**15) for look in looks]
    roster = account_for_ranks(hostile, Expected())
    assert max(roster.ranks) < MOST_RANKS
    assert min(roster.ranks) >= 0
    assert any("world sizes differ" in conflict.text for conflict in roster.conflicts)


def test_sizes_tell_of_members_that_left_no_dump() -> None:
    """Two dumps without members, whose gather has four parts: two more ranks there must be; who is seen adds none."""
    gather = Signature("all_gather_into_tensor", "nccl", input_sizes=((4,),), output_sizes=((16,),))
    looked = live_looks(waiting_for(2), WAITING)[-1]
    seen = [
        each.model_copy(update={"recorder": Trace(signatures=(gather,)), "identity": Identity(rank=each.identity.rank)})
        for each in looked.ranks
    ]
    two, four = (looked.model_copy(update={"ranks": tuple(seen[:count])}) for count in (2, 4))
    assert account_for_ranks([two], Expected()).world_size == 4
    assert account_for_ranks([four], Expected()).world_size is None


def test_world_is_as_large_as_the_largest_communicator_and_no_larger_than_the_largest_part_of_a_gather_tells() -> None:
    """Dumps that name a pair, a log that names a communicator of eight; and a gather of unequal parts."""
    pair = Trace(groups=(Group(name="1", description="tp0", members="0-1"),))
    logs = Logs(files=(), events=(), communicators=(LoggedCommunicator(host="n1", pid=7, size=8),))
    looked = live_looks(waiting_for(2), WAITING)[-1]

    def world(*recorders: Trace, logs: Logs | None = None) -> int | None:
        seen = [
            each.model_copy(update={"recorder": recorder, "identity": Identity(rank=rank)})
            for rank, (each, recorder) in enumerate(zip(looked.ranks, recorders, strict=False))
        ]
        return account_for_ranks(
            [looked.model_copy(update={"ranks": tuple(seen), "logs": logs})], Expected()
        ).world_size

    assert (world(pair, pair), world(pair, pair, logs=logs)) == (2, 8)
    parts = (
        Trace(signatures=(Signature("all_gather", "nccl", input_sizes=((part,),), output_sizes=((12,),)),))
        for part in (2, 4, 6)
    )
    assert world(*parts) is None


def test_no_snapshot_at_all_cannot_tell() -> None:
    assert diagnose([], Expected()).verdict == "cannot_tell"


def test_a_debugger_that_traces_a_rank_is_no_stop_signal() -> None:
    traced = WAITING | {2: Seen(frames=(USER,), state="t")}
    assert account_for_ranks(live_looks(waiting_for(2), traced), Expected()).ranks[2].presence is Presence.RUNNING


def test_an_exception_in_the_jobs_common_log_tells_why_a_rank_has_ended() -> None:
    line = "[rank2]: ValueError: batch of size 0"
    event = LogEvent(kind=EventKind.EXCEPTION, rank=2, text=line, path="job.log")
    looks = without(live_looks(waiting_for(2), WAITING), 2, logs=Logs(events=(event,)))
    finding = diagnose(looks, Expected(job="sim")).findings[0]
    assert finding.cause == "exception"
    assert any(evidence.kind == "log" and evidence.line == line for evidence in finding.evidence)


def from_file(snapshots: list[NodeSnapshot], rank: int, written_ns: int) -> list[NodeSnapshot]:
    """The looks as they are when the record of `rank` is from a file that was written then."""
    return [
        s.model_copy(
            update={
                "ranks": tuple(
                    r.model_copy(
                        update={
                            "recorder": r.recorder.model_copy(update={"origin": (Origin.DUMP_FILE,)}),
                            "recorded_at_ns": written_ns,
                        }
                    )
                    if r.identity.rank == rank and isinstance(r.recorder, Trace)
                    else r
                    for r in s.ranks
                )
            }
        )
        for s in snapshots
    ]


def test_file_of_a_watchdog_that_is_older_than_what_others_issued_tells_nothing() -> None:
    """Its rank may have gone on since; one that was written later is as good as any record."""
    looks = live_looks(waiting_for(2), WAITING)
    newest = max(max(r.recorder.created_ns) for s in looks for r in s.ranks if isinstance(r.recorder, Trace))
    old, new = (
        account_for_ranks(from_file(looks, 2, newest + later), Expected()).ranks for later in (-1, 600_000_000_000)
    )
    assert {rank for rank, view in old.items() if view.trace is None} == {2}
    assert {rank for rank, view in new.items() if view.trace is None} == set()
    assert diagnose(tuple(from_file(looks, 2, newest - 1)), Expected()).coverage.with_trace == 3
