"""Single faults put into simulated jobs: the root is named, the victims apart, and nobody else."""

from array import array
from collections.abc import Mapping, Sequence

import pytest

from collector.align.expected import Expected, Neighbour
from collector.judge.verdict import diagnose
from collector.looks.next_looks import further_looks
from collector.show.views import view_sequences
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.rank_sets import unfold
from shared.wire.fds import OtherEnd
from shared.wire.snapshot import Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, Thread
from shared.wire.trace import Trace
from tests.build.jobs.four_ranks import looks_at_all_stuck
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import with_rank
from tests.build.jobs.records import ISSUED
from tests.build.jobs.simulated import (
    LOADER,
    PAIRS,
    RECV,
    USER,
    WORLD,
    Collective,
    Job,
    Recv,
    Seen,
    Send,
    Stay,
    Step,
    live_looks,
    training,
)


def judged_dumps(job: Job, **options: object) -> Diagnosis:
    """The verdict on bare dumps."""
    return judged(job.dumps(**options))  # type: ignore[arg-type]


def ranks(diagnosis: Diagnosis) -> Sequence[tuple[Kind, tuple[int, ...]]]:
    return [(finding.kind, finding.culprit_ranks) for finding in diagnosis.findings]


@pytest.mark.parametrize("members", [True, False], ids=["members told", "members inferred"])
@pytest.mark.parametrize("root", [0, 1, 2, 3])
def test_a_rank_that_stays_away_is_the_root_and_its_partner_a_victim(root: int, members: bool) -> None:
    steps = {rank: training(rank) for rank in range(4)}
    steps[root][6:] = [Stay()]
    diagnosis = judged_dumps(Job(steps, PAIRS), members=members)
    assert ranks(diagnosis) == [(Kind.RANK_NOT_JOINED, (root,))]
    assert diagnosis.findings[0].victims == ",".join(
        span for span in {0: "1-3", 1: "0,2-3", 2: "0-1,3", 3: "0-2"}[root].split(",")
    )


@pytest.mark.parametrize(
    ("extra", "kind"),
    [(Collective(WORLD, size=1), Kind.COLLECTIVE_MISMATCH), (Collective(WORLD), Kind.ORDER_INVERSION)],
    ids=["of another size", "of the same size"],
)
def test_an_extra_collective_on_one_rank_convicts_that_rank_though_it_is_ahead(extra: Collective, kind: Kind) -> None:
    """Rank 1 waits in the pair for rank 0, ranks 2 and 3 took rank 0's extra operation for their own."""
    steps = {rank: training(rank) for rank in range(4)}
    steps[0].insert(4, extra)
    diagnosis = judged_dumps(Job(steps, PAIRS))
    assert ranks(diagnosis) == [(kind, (0,))]
    assert diagnosis.findings[0].victims == "1-3"


def test_a_tie_convicts_nobody() -> None:
    steps: dict[int, list[Step]] = {rank: training(rank) for rank in range(4)}
    for rank in (0, 1):
        steps[rank][5] = Collective(WORLD, op="all_gather")
    diagnosis = judged_dumps(Job(steps, PAIRS))
    assert ranks(diagnosis) == [(Kind.COLLECTIVE_MISMATCH, ())]
    assert diagnosis.findings[0].certainty is Certainty.PROVEN  # that they differ; who is wrong is open


def test_two_ranks_that_differ_are_told_at_once_and_nobody_is_behind() -> None:
    """It is on record; that one of them works on, past an operation that it has come out of, makes it no pause."""
    steps: dict[int, list[Step]] = {rank: [Collective(WORLD)] * 4 for rank in (0, 1)}
    steps[0] += [Collective(WORLD, op="broadcast"), Stay()]
    steps[1] += [Collective(WORLD), Collective(WORLD)]
    seen = {0: Seen((USER,), cpu_share=0.9), 1: Seen()}
    looks = live_looks(Job(steps, {WORLD: (0, 1)}), seen, after_seconds=2.0)
    (finding,) = diagnose(looks, Expected()).findings
    assert (finding.kind, finding.culprits, finding.certainty) == (
        Kind.COLLECTIVE_MISMATCH,
        (),
        Certainty.PROVEN,
    )
    (table,) = view_sequences(looks, Expected()).groups
    assert (table.differ, table.behind) == (5, "")
    assert [lane.op for lane in table.lanes] == ["broadcast [16]", "all_reduce [16]"]
    assert table.lanes[1].call_site is not None


def test_two_groups_in_crossed_order_convict_the_minority() -> None:
    groups = {"dense": (0, 1, 2, 3), "sparse": (0, 1, 2, 3)}
    steps: dict[int, list[Step]] = {rank: [Collective("dense"), Collective("sparse")] * 3 for rank in range(4)}
    steps[2][4:] = [Collective("sparse"), Collective("dense")]
    diagnosis = judged_dumps(Job(steps, groups))
    assert ranks(diagnosis) == [(Kind.ORDER_INVERSION, (2,))]
    assert {wait.rank for wait in diagnosis.findings[0].cycle} >= {2}


def test_crossed_order_between_two_ranks_is_a_tie() -> None:
    groups = {"a": (0, 1), "b": (0, 1)}
    diagnosis = judged_dumps(
        Job({0: [Collective("a"), Collective("b")], 1: [Collective("b"), Collective("a")]}, groups)
    )
    assert ranks(diagnosis) == [(Kind.ORDER_INVERSION, ())]
    assert diagnosis.findings[0].certainty is Certainty.SUSPECTED
    assert [wait.rank for wait in diagnosis.findings[0].cycle] == [0, 1]


def test_a_send_that_never_comes_convicts_the_sender() -> None:
    steps: dict[int, list[Step]] = {0: [Send(1), Stay()], 1: [Recv(0), Send(2), Recv(0)], 2: [Recv(1), Recv(1)], 3: []}
    diagnosis = judged_dumps(Job(steps))
    assert diagnosis.findings[0].culprit_ranks == (0,)
    assert diagnosis.findings[0].kind is Kind.P2P_UNMATCHED
    assert diagnosis.findings[0].victims == "1-2"


def test_a_ring_of_receives_is_a_deadlock_with_its_cycle() -> None:
    diagnosis = judged_dumps(Job({rank: [Recv((rank - 1) % 4), Send((rank + 1) % 4)] for rank in range(4)}))
    assert ranks(diagnosis) == [(Kind.P2P_DEADLOCK, (0, 1, 2, 3))]
    assert [wait.rank for wait in diagnosis.findings[0].cycle] == [0, 3, 2, 1]


def test_two_independent_faults_are_two_findings() -> None:
    groups = {"left": (0, 1), "right": (2, 3)}
    steps: dict[int, list[Step]] = {rank: [Collective("left" if rank < 2 else "right")] * 4 for rank in range(4)}
    steps[1][2:] = [Stay()]
    steps[3][3:] = [Stay()]
    diagnosis = judged_dumps(Job(steps, groups))
    assert sorted(finding.culprit_ranks for finding in diagnosis.findings) == [(1,), (3,)]


def test_a_small_ring_buffer_does_not_change_the_verdict() -> None:
    steps = {rank: training(rank, 40) for rank in range(4)}
    steps[2][61:] = [Stay()]
    whole, cut = judged_dumps(Job(steps, PAIRS)), judged_dumps(Job(steps, PAIRS), window=8)
    assert ranks(whole) == ranks(cut) == [(Kind.RANK_NOT_JOINED, (2,))]


def test_without_a_world_size_the_last_rank_may_be_missing_and_nothing_is_proven() -> None:
    """Dumps that name no members, and the highest rank left none: all that are seen have joined."""
    steps = {rank: training(rank) for rank in range(4)}
    steps[3][5:] = [Stay()]
    finding = judged_dumps(Job(steps, PAIRS), members=False, without=[3]).findings[0]
    assert (finding.kind, finding.culprits, finding.certainty) == (Kind.STUCK_TOGETHER, (), Certainty.SUSPECTED)
    assert any("world size" in remark for remark in finding.remarks)


def test_dumps_with_nothing_in_flight_cannot_tell() -> None:
    diagnosis = judged_dumps(Job({rank: training(rank) for rank in range(4)}, PAIRS))
    assert diagnosis.verdict is Verdict.CANNOT_TELL
    assert diagnosis.findings == ()


def stuck_on_two() -> Job:
    steps = {rank: training(rank) for rank in range(4)}
    steps[2][6:] = [Stay()]
    return Job(steps, PAIRS)


ASLEEP = {0: Seen(), 1: Seen(), 2: Seen(frames=(USER,)), 3: Seen()}


def test_a_live_hang_names_where_the_root_is() -> None:
    diagnosis = diagnose(live_looks(stuck_on_two(), ASLEEP), Expected(job="sim"))
    assert diagnosis.verdict is Verdict.HUNG
    finding = diagnosis.findings[0]
    assert finding.culprit_ranks == (2,) and finding.culprits[0].pid == 1002
    assert finding.where is not None and finding.where.user is not None
    assert finding.where.user.function == "train_step"
    assert finding.certainty is Certainty.PROVEN
    assert 2 in {rank for evidence in finding.evidence for rank in unfold(evidence.ranks)}
    assert further_looks(live_looks(stuck_on_two(), ASLEEP), Expected()).pauses == (), "it is clear"


def test_a_pause_within_the_rhythm_of_the_job_is_not_a_hang() -> None:
    diagnosis = diagnose(live_looks(stuck_on_two(), ASLEEP, after_seconds=0.0, interval_seconds=0.001), Expected())
    assert diagnosis.verdict in (Verdict.NOT_HUNG, Verdict.CANNOT_TELL)
    assert diagnosis.findings == ()


@pytest.mark.parametrize(
    ("frames", "found", "cause"),
    [
        ((USER,), (Kind.RANK_NOT_JOINED, (2,)), None),
        ((USER, LOADER), (Kind.RANK_NOT_JOINED, (2,)), Cause.DATALOADER),
        (Seen().frames, (Kind.STUCK_TOGETHER, ()), None),
    ],
    ids=["outside communication", "in a DataLoader", "in the collective of all"],
)
def test_without_a_recorder_stacks_alone_suspect_whoever_is_elsewhere(
    frames: tuple[Frame, ...], found: tuple[Kind, tuple[int, ...]], cause: Cause | None
) -> None:
    seen = ASLEEP | {2: Seen(frames=frames)}
    diagnosis = diagnose(live_looks(stuck_on_two(), seen, recorder=False, interval_seconds=6.0), Expected())
    assert (diagnosis.verdict, ranks(diagnosis)) == (Verdict.HUNG, [found])
    assert diagnosis.findings[0].certainty is not Certainty.PROVEN
    assert cause is None or diagnosis.findings[0].cause is cause


def test_all_in_recv_is_a_deadlock_whoever_the_peers_are() -> None:
    same = {rank: Seen(frames=(USER, RECV)) for rank in range(4)}
    diagnosis = diagnose(live_looks(Job({r: training(r) for r in range(4)}, PAIRS), same), Expected())
    assert ranks(diagnosis) == [(Kind.P2P_DEADLOCK, (0, 1, 2, 3))]
    assert diagnosis.findings[0].certainty is Certainty.SUSPECTED


IMPORTING = Frame("_find_and_load", "<frozen importlib._bootstrap>", 1176)


@pytest.mark.parametrize(("frames", "seconds"), [((USER, IMPORTING), 1.0), ((USER,), 60.0)], ids=["at work", "later"])
def test_a_stopped_rank_is_told_as_stopped_at_once(frames: tuple[Frame, ...], seconds: float) -> None:
    """An import may take a minute, and a signal does not pass."""
    stopped = ASLEEP | {2: Seen(frames=frames, state="T")}
    diagnosis = diagnose(live_looks(stuck_on_two(), stopped, after_seconds=seconds), Expected())
    assert ranks(diagnosis) == [(Kind.RANK_STOPPED, (2,))]
    assert diagnosis.findings[0].cause is Cause.SIGNAL


@pytest.mark.parametrize(
    ("told", "kind", "held"),
    [
        ({"state": "T"}, Kind.RANK_STOPPED, "stopped by a signal"),
        ({"frozen_by": "/sys/fs/cgroup/job/cgroup.freeze"}, Kind.RANK_NOT_JOINED, "frozen with its cgroup"),
    ],
    ids=["SIGSTOP", "freezer"],
)
def test_who_is_held_inside_of_what_all_have_issued_is_to_blame(told: Mapping[str, str], kind: Kind, held: str) -> None:
    """The records alone show no divergence: they would send people to the network."""
    looks = looks_at_all_stuck(hosts=None)
    process = next(rank.process for rank in looks[-1].ranks if rank.identity.rank == 2)
    assert isinstance(process, Process)
    (finding,) = judged(with_rank(looks, 2, process=process.model_copy(update=told))).findings
    assert (finding.kind, finding.culprit_ranks, finding.cause) == (kind, (2,), Cause.SIGNAL)
    assert f"rank 2 is held inside all_reduce #4 of group default_pg: it is {held}" in finding.summary
    assert "ranks 0-1,3 wait for it" in finding.summary and finding.certainty is Certainty.PROVEN


def test_a_rank_without_a_process_is_missing_on_its_node() -> None:
    three = {rank: seen for rank, seen in ASLEEP.items() if rank != 2}
    diagnosis = diagnose(live_looks(stuck_on_two(), three, world_size=4), Expected())
    assert ranks(diagnosis) == [(Kind.RANK_MISSING, (2,))]
    assert diagnosis.findings[0].culprits[0].host == "node-a"


@pytest.mark.parametrize(("size", "others", "blamed"), [(4, "2", ()), (4, "2-3", (2,)), (2, "2", (2,))])
def test_a_rank_that_has_begun_anew_in_another_job_is_not_missing(
    size: int, others: str, blamed: tuple[int, ...]
) -> None:
    """Ranks that meet again at another address make another job, where nothing but the address names it."""
    three = {rank: seen for rank, seen in ASLEEP.items() if rank != 2}
    beside = Neighbour(job="127.0.0.1:29707", world_size=size, ranks=others)
    diagnosis = diagnose(live_looks(stuck_on_two(), three, world_size=4), Expected(neighbours=(beside,)))
    assert tuple(rank for finding in diagnosis.findings for rank in finding.culprit_ranks) == blamed


def test_waiters_that_wake_without_a_recorder_are_not_hung() -> None:
    awake = {rank: Seen(switches_per_second=50.0) for rank in range(4)}
    diagnosis = diagnose(live_looks(stuck_on_two(), awake, recorder=False), Expected())
    assert diagnosis.verdict is Verdict.NOT_HUNG


def test_a_short_freeze_asks_for_one_more_look_and_accuses_nobody() -> None:
    looks = live_looks(stuck_on_two(), ASLEEP, recorder=False)
    diagnosis = diagnose(looks, Expected())
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.CANNOT_TELL, ())
    further = further_looks(looks, Expected())
    assert 2.0 <= further.seconds <= 3.0
    assert further.pauses == (further.seconds,)
    assert further.reason == "to tell whether rank 2 is slow or stuck"


def test_a_rank_where_healthy_ranks_are_for_a_while_is_looked_at_again() -> None:
    receiving = ASLEEP | {2: Seen(frames=(USER, RECV_INTO))}
    early = live_looks(stuck_on_two(), receiving, after_seconds=4.0)
    assert diagnose(early, Expected()).verdict is Verdict.CANNOT_TELL
    further = further_looks(early, Expected())
    assert further.pauses == (10.0,), "so that it ends early where the job moves again"
    assert 30.0 <= further.seconds <= 61.0


def test_a_moving_job_without_a_recorder_is_sampled_for_a_straggler() -> None:
    awake = {rank: Seen(switches_per_second=50.0) for rank in range(4)} | {
        2: Seen(frames=(USER,), switches_per_second=50.0)
    }
    looks = live_looks(stuck_on_two(), awake, recorder=False)
    assert len(further_looks(looks, Expected()).pauses) == 8
    many = diagnose(live_looks(stuck_on_two(), awake, recorder=False, looks=10), Expected())
    assert many.verdict is Verdict.SLOW
    assert ranks(many) == [(Kind.STRAGGLER, (2,))]
    assert many.findings[0].certainty is Certainty.SUSPECTED


QUEUE_GET = Frame("Queue.get", "/usr/lib/python3.11/queue.py", 171)
CONDITION_WAIT = Frame("Condition.wait", "/usr/lib/python3.11/threading.py", 327)
JOIN = Frame("Thread.join", "/usr/lib/python3.11/threading.py", 1119)
RECV_INTO = Frame("SocketIO.readinto", "/usr/lib/python3.11/socket.py", 706)
INIT = Frame("init_process_group", "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 1854)


def idle_on_two(op: str, seconds: float, *connected: OtherEnd) -> Diagnosis:
    """Rank 2 waits at its queue, and the others for it in an operation."""
    steps: dict[int, list[Step]] = {rank: [Collective(WORLD, op)] * (3 + (rank != 2)) for rank in range(4)}
    idle = ASLEEP | {2: Seen(frames=(USER, QUEUE_GET, CONDITION_WAIT))}
    looks = live_looks(Job({**steps, 2: [*steps[2], Stay()]}), idle, after_seconds=seconds)
    (process,) = (each.process for each in looks[0].ranks if each.identity.rank == 2)
    assert isinstance(process, Process)
    return diagnose(with_rank(looks, 2, process=process.model_copy(update={"awaits": connected})), Expected())


@pytest.mark.parametrize(("beside", "verdict"), [(QUEUE_GET, Verdict.CANNOT_TELL), (RECV_INTO, Verdict.HUNG)])
def test_who_waits_for_a_signal_may_serve_by_its_threads(beside: Frame, verdict: Verdict) -> None:
    """Others wait for what it will hand out, and a thread of it for work."""
    steps: dict[int, list[Step]] = {rank: [Collective(WORLD, "broadcast")] * (3 + (rank != 2)) for rank in range(4)}
    looks = live_looks(Job({**steps, 2: [*steps[2], Stay()]}), ASLEEP, after_seconds=90.0)
    (rank,) = (each for each in looks[0].ranks if each.identity.rank == 2)
    assert isinstance(rank.process, Process) and isinstance(rank.stacks, Stacks)
    threads = (*rank.stacks.threads, Thread(tid=7, name="serves", frames=(len(rank.stacks.frames),)))
    stacks = rank.stacks.model_copy(update={"frames": (*rank.stacks.frames, beside), "threads": threads})
    waits = rank.process.model_copy(update={"syscall": Syscall(name="rt_sigtimedwait"), "wchan": "do_sigtimedwait"})
    assert diagnose(with_rank(looks, 2, process=waits, stacks=stacks), Expected()).verdict is verdict


def test_whose_work_may_come_over_a_connection_has_as_long_as_who_works() -> None:
    """As a rollout that somebody else computes, of whom nobody knows."""
    ends = [OtherEnd(kind="socket", name=f"10.0.0.9:{port}", local="10.0.0.1:5") for port in (1, 2)]
    assert idle_on_two("all_reduce", 90.0, *ends).verdict is Verdict.CANNOT_TELL
    assert ranks(idle_on_two("all_reduce", 700.0, *ends)) == [(Kind.RANK_NOT_JOINED, (2,))]


def test_a_server_that_waits_for_work_is_never_called_hung() -> None:
    """Others wait for what it will hand out."""
    diagnosis = idle_on_two("broadcast", 36_000.0)
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.CANNOT_TELL, ())
    assert "waits for work" in diagnosis.headline


@pytest.mark.parametrize(("seconds", "verdict"), [(20.0, Verdict.CANNOT_TELL), (90.0, Verdict.HUNG)])
def test_nobody_is_idle_whose_own_part_others_await(seconds: float, verdict: Verdict) -> None:
    """Of a reduction: a minute, and it is not proven, for its work may come yet."""
    diagnosis = idle_on_two("all_reduce", seconds)
    assert diagnosis.verdict is verdict
    assert [each.certainty for each in diagnosis.findings] == [Certainty.SUPPORTED] * len(diagnosis.findings)
    assert ranks(diagnosis) == [(Kind.RANK_NOT_JOINED, (2,))] * len(diagnosis.findings)


@pytest.mark.parametrize("innermost", [JOIN, RECV_INTO], ids=["a thread of its own", "the network"])
def test_where_healthy_ranks_are_for_a_while_a_rank_is_given_a_minute(innermost: Frame) -> None:
    away = ASLEEP | {2: Seen(frames=(USER, innermost))}
    early = diagnose(live_looks(stuck_on_two(), away, after_seconds=20.0), Expected())
    late = diagnose(live_looks(stuck_on_two(), away, after_seconds=90.0), Expected())
    assert (early.verdict, early.findings) == (Verdict.CANNOT_TELL, ())
    assert ranks(late) == [(Kind.RANK_NOT_JOINED, (2,))]
    assert late.findings[0].certainty is Certainty.SUPPORTED


def test_a_rank_that_is_late_for_the_start_is_no_straggler() -> None:
    starting = {rank: Seen(frames=(USER, INIT), switches_per_second=50.0) for rank in range(3)}
    late = starting | {3: Seen(frames=(USER,), switches_per_second=50.0)}
    job = Job({rank: [Stay()] for rank in range(4)})
    diagnosis = diagnose(live_looks(job, late, recorder=False, looks=10), Expected())
    assert diagnosis.verdict is not Verdict.SLOW


def test_what_the_agent_has_watched_counts_as_standing_still() -> None:
    away = ASLEEP | {2: Seen(frames=(USER, RECV_INTO))}
    looks = live_looks(stuck_on_two(), away, recorder=False)
    watched = [
        look.model_copy(update={"ranks": tuple(r.model_copy(update={"idle_for_seconds": 300.0}) for r in look.ranks)})
        for look in looks
    ]
    assert diagnose(looks, Expected()).verdict is Verdict.CANNOT_TELL
    assert ranks(diagnose(watched, Expected())) == [(Kind.RANK_NOT_JOINED, (2,))]


@pytest.mark.parametrize("absent", [[2, 3], [1, 2, 3]])
def test_ranks_whose_dumps_nobody_gave_are_asked_for_and_never_blamed(absent: list[int]) -> None:
    steps = {rank: training(rank) for rank in range(4)}
    for rank in absent:
        steps[rank][6:] = [Stay()]
    diagnosis = judged_dumps(Job(steps, PAIRS), without=absent)
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.CANNOT_TELL, ())
    assert "which nobody examined" in diagnosis.headline
    assert any("it was not examined" in gap.missing.detail for gap in diagnosis.coverage.missing)
    assert "dumps, stacks or logs to the directory" in diagnosis.next_steps[0].text


def test_the_one_rank_of_a_job_that_left_no_dump_is_suspected_and_no_more() -> None:
    steps = {rank: training(rank) for rank in range(4)}
    steps[2][6:] = [Stay()]
    (finding,) = judged_dumps(Job(steps, PAIRS), without=[2]).findings
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == (Kind.RANK_MISSING, (2,), Certainty.SUSPECTED)


@pytest.mark.parametrize("recorder", [True, False])
def test_on_one_node_of_two_the_other_half_of_a_job_is_not_accused(recorder: bool) -> None:
    here = {rank: Seen() for rank in range(2)}
    steps: dict[int, list[Step]] = {rank: [Collective(WORLD)] * 3 for rank in range(2)}
    job = Job(steps | {rank: [Collective(WORLD)] * 2 + [Stay()] for rank in (2, 3)}, {})
    looks = [
        look.model_copy(update={"ranks": tuple(map(_on_a_node_of_two, look.ranks))})
        for look in live_looks(job, here, world_size=4, recorder=recorder, after_seconds=600)
    ]
    diagnosis = diagnose(looks, Expected())
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.CANNOT_TELL, ())
    assert "wait for ranks 2-3, which nobody examined" in diagnosis.headline
    assert "`unhang diagnose --ssh --hosts LIST`" in diagnosis.next_steps[0].text


def _on_a_node_of_two(rank: RankSnapshot) -> RankSnapshot:
    identity = rank.identity.model_copy(update={"local_rank": rank.identity.rank, "local_world_size": 2})
    return rank.model_copy(update={"identity": identity})


@pytest.mark.parametrize("unwritten", [(), (0, 1), (0, 1, 3)])
def test_what_a_watchdog_that_has_ended_did_not_write_down(unwritten: tuple[int, ...]) -> None:
    """Ranks that take their groups down wait in the last operation, whatever older ones look unfinished."""
    many = [Collective("0")] * 3
    job = Job({rank: [*many, Stay() if rank == 2 else Collective("0")] for rank in range(4)})
    leaves = Seen(frames=(USER, RECV._replace(function="destroy_process_group")))
    looks = live_looks(job, {rank: Seen(frames=(USER,)) if rank == 2 else leaves for rank in range(4)})
    for look in looks:
        for trace in (each.recorder for each in look.ranks if each.identity.rank in unwritten):
            assert isinstance(trace, Trace)
            trace.state[:] = array(trace.state.typecode, [ISSUED] * len(trace))
    (finding,) = judged(looks).findings
    assert (finding.kind, finding.culprit_ranks, finding.victims) == (Kind.RANK_NOT_JOINED, (2,), "0-1,3")
    assert finding.sequence == 4
