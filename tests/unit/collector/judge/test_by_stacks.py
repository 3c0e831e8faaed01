"""Step 9: what stacks and process states alone tell, and where they must keep silent."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from shared.answer.diagnosis import Diagnosis, StackEvidence
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.missing import Missing, Reason
from shared.wire.snapshot import Beat, Fds, Identity, NodeSnapshot, Process, ProcessState, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, Thread
from shared.wire.trace import Trace
from tests.build.jobs.judged import judged
from tests.build.jobs.records import ISSUED, Row, trace_of

SITE = "/env/lib/python3.11/site-packages"
STDLIB = "/usr/lib/python3.11"
C10D = f"{SITE}/torch/distributed/distributed_c10d.py"
NOTHING = Missing(source="x", reason=Reason.NOT_FOUND)
BEGUN_NS = 1_700_000_000_000_000_000

MAIN = Frame("main", "/home/ada/train.py", 40)
STEP = Frame("train_step", "/home/ada/train.py", 12)
ALL_REDUCE = Frame("all_reduce", C10D, 3252)
ALL_GATHER = Frame("all_gather", C10D, 4100)
BARRIER = Frame("barrier", C10D, 5356)
GATHER = Frame("gather", C10D, 4300)
BROADCAST = Frame("broadcast", C10D, 3100)
BACKWARD = Frame("_engine_run_backward", f"{SITE}/torch/autograd/graph.py", 979)
UNSHARD = Frame("wait_for_unshard", f"{SITE}/torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py", 420)
WAIT_TENSOR = Frame("wait_tensor", f"{SITE}/torch/distributed/_functional_collectives.py", 129)
RECV = Frame("recv", C10D, 2799)
NEW_GROUP = Frame("new_group", C10D, 5610)
STORE_GET = Frame("rendezvous", f"{SITE}/torch/distributed/rendezvous.py", 90)
QUORUM = Frame("Manager.wait_quorum", f"{SITE}/torchft/manager.py", 632)
SYNCHRONIZE = Frame("synchronize", f"{SITE}/torch/cuda/__init__.py", 1040)
RETRY = Frame("Retry.sleep", f"{SITE}/urllib3/util/retry.py", 370)
PIPE_RECV = Frame("Connection._recv", f"{STDLIB}/multiprocessing/connection.py", 395)
QUEUE_GET = Frame("Queue.get", f"{STDLIB}/multiprocessing/queues.py", 103)
EVENT_LOOP = Frame("BaseEventLoop._run_once", f"{STDLIB}/asyncio/base_events.py", 1884)
POOL_GET = Frame("ApplyResult.get", f"{STDLIB}/multiprocessing/pool.py", 768)
EVENT_WAIT = Frame("Event.wait", f"{STDLIB}/threading.py", 622)
LIBRARY = Frame("poll_until_ready", f"{SITE}/someones_library/waiting.py", 10)


@dataclass(frozen=True)
class Rank:
    """One rank that stands still at the end of `frames`."""

    frames: tuple[Frame, ...]
    syscall: str = "futex"
    target: str | None = None
    wchan: str = "futex_do_wait"
    state: ProcessState = "S"
    groups: int = 2
    devices: tuple[str, ...] = ("/dev/null",)
    bytes_per_second: int = 0
    seen: bool = True
    trace: Trace | None = None


ASLEEP = ("clock_nanosleep", None, "hrtimer_nanosleep")


def waits(*frames: Frame, groups: int = 2) -> Rank:
    return Rank((MAIN, *frames), groups=groups)


def judged_frozen(ranks: Mapping[int, Rank], seconds: float = 6.0) -> Diagnosis:
    """The verdict on two looks so far apart, between which nothing has changed."""
    looks = [
        NodeSnapshot(
            host="a",
            taken_at_ns=BEGUN_NS + int(at * 1e9),
            ranks=tuple(_look(rank, one, at, len(ranks)) for rank, one in ranks.items()),
        )
        for at in (0.0, seconds)
    ]
    return judged(looks)


def _look(rank: int, one: Rank, at: float, world_size: int) -> RankSnapshot:
    at_ns = BEGUN_NS + int(at * 1e9)
    beat = Beat(at_ns=at_ns, cpu_seconds=1.0, main_switches=7, io_bytes=int(at * one.bytes_per_second))
    main = Thread(tid=10 + rank, name="MainThread", frames=tuple(range(len(one.frames))))
    return RankSnapshot(
        identity=Identity(
            job="j", rank=rank, world_size=world_size, host="a", pid=10 + rank, started_at=BEGUN_NS / 1e9 - 600
        ),
        looked_at_ns=at_ns,
        process=Process(
            pid=10 + rank,
            state=one.state,
            wchan=one.wchan,
            syscall=Syscall(name=one.syscall, fd=9, target=one.target),
            group_threads={"gloo_tcp_loop": one.groups},
            before=beat,
            after=beat,
        ),
        stacks=Stacks(pid=10 + rank, frames=one.frames, threads=(main,)) if one.seen else NOTHING,
        fds=Fds(total=9, devices=one.devices),
        logs=NOTHING,
        recorder=NOTHING if one.trace is None else one.trace,
    )


def named(diagnosis: Diagnosis) -> set[int]:
    return {rank for finding in diagnosis.findings for rank in finding.culprit_ranks}


def all_but(odd: int, usual: Rank, other: Rank) -> dict[int, Rank]:
    return {rank: other if rank == odd else usual for rank in range(4)}


def test_the_odd_rank_is_named_where_there_is_one_group() -> None:
    diagnosis = judged_frozen(all_but(2, waits(ALL_REDUCE, groups=1), waits(BARRIER, groups=1)))
    assert diagnosis.findings[0].kind is Kind.COLLECTIVE_MISMATCH
    assert named(diagnosis) == {2}


@pytest.mark.parametrize(
    ("call", "kind", "said", "advice"),
    [
        (NEW_GROUP, Kind.ORDER_INVERSION, "make groups in different orders", "in the same order"),
        (ALL_REDUCE, Kind.STUCK_TOGETHER, "in all_reduce, called from different lines", "what branches on rank"),
    ],
    ids=["new_group", "all_reduce"],
)
def test_two_lines_of_one_function_are_told_and_nobody_is_blamed(
    call: Frame, kind: Kind, said: str, advice: str
) -> None:
    """Which of the two comes first is in no stack."""
    lines = (STEP, STEP._replace(line=13))
    (finding,) = judged_frozen({rank: waits(lines[rank == 2], call) for rank in range(4)}, seconds=70.0).findings
    assert (finding.kind, finding.culprit_ranks) == (kind, ())
    assert said in finding.summary and "train.py:12" in finding.summary and "train.py:13" in finding.summary
    assert advice in finding.next_steps[0].text
    assert not any("GPU" in step.text for step in finding.next_steps)


def test_ranks_that_all_wait_for_a_key_are_asked_for_it_and_not_for_their_network() -> None:
    (finding,) = judged_frozen({rank: waits(STEP, STORE_GET) for rank in range(4)}, seconds=70.0).findings
    assert "train.py:12" in finding.summary
    assert "which key" in finding.next_steps[0].text
    assert not any("preflight" in (step.command or "") for step in finding.next_steps)


def test_in_a_job_with_smaller_groups_the_odd_rank_may_be_a_victim_and_is_only_told() -> None:
    """Rank 3 skipped the barrier of its pair, in which rank 2 waits for it, and reduces with the others."""
    diagnosis = judged_frozen(all_but(2, waits(ALL_REDUCE), waits(BARRIER)))
    assert diagnosis.verdict is Verdict.HUNG
    assert named(diagnosis) == set()
    assert "rank 2 in barrier, ranks 0-1,3 in all_reduce" in diagnosis.headline
    assert [each.ranks for each in diagnosis.findings[0].evidence if isinstance(each, StackEvidence)] == ["2", "0-1,3"]
    assert "what branches on rank" in diagnosis.findings[0].next_steps[0].text


@pytest.mark.parametrize(
    ("usual", "other"),
    [(BACKWARD, BARRIER), (BARRIER, BACKWARD), (UNSHARD, BARRIER), (UNSHARD, BACKWARD), (ALL_REDUCE, WAIT_TENSOR)],
)
def test_work_handles_and_backward_passes_are_places_as_well(usual: Frame, other: Frame) -> None:
    """They are collectives of everybody, by another name."""
    diagnosis = judged_frozen(all_but(2, waits(usual, groups=1), waits(other, groups=1)))
    assert named(diagnosis) == {2}
    assert diagnosis.findings[0].certainty is Certainty.SUSPECTED
    assert diagnosis.headline.startswith("Hung: rank 2 is in ")


def test_who_waits_for_a_backward_pass_that_is_at_work_is_not_to_blame() -> None:
    """Three ranks compute their gradients; the fourth was faster."""
    busy = replace(waits(BACKWARD, groups=1), bytes_per_second=1_000_000)
    diagnosis = judged_frozen(all_but(2, busy, waits(BARRIER, groups=1)))
    assert diagnosis.verdict is Verdict.CANNOT_TELL
    assert named(judged_frozen(all_but(2, busy, waits(BARRIER, groups=1)), seconds=70.0)) == set()


def test_who_computes_its_own_gradients_waits_for_nobody() -> None:
    """Nothing shows a collective: ranks that are elsewhere do not hold it up."""
    own, backward = (replace(waits(*frames), bytes_per_second=1_000_000) for frames in ((), (BACKWARD,)))
    diagnosis = judged_frozen(all_but(2, own, backward), seconds=70.0)
    assert (diagnosis.verdict, diagnosis.findings) == (Verdict.NOT_HUNG, ())


@pytest.mark.parametrize("rooted", [GATHER, BROADCAST, RECV])
def test_operations_with_a_root_or_a_peer_are_told_and_held_against_nobody(rooted: Frame) -> None:
    """The root of a gather comes last by nature."""
    diagnosis = judged_frozen(all_but(0, waits(BACKWARD, groups=1), waits(rooted, groups=1)))
    assert named(diagnosis) == set()
    assert f"rank 0 in {rooted.function}, ranks 1-3 in backward" in diagnosis.headline


def test_where_one_stack_is_not_known_the_odd_one_among_the_rest_is_not_either() -> None:
    ranks = all_but(2, waits(ALL_REDUCE, groups=1), waits(BARRIER, groups=1))
    ranks[3] = Rank((MAIN,), groups=1, seen=False)
    assert named(judged_frozen(ranks)) == set()


def test_a_disagreement_of_stacks_needs_as_long_a_freeze_as_everything_else() -> None:
    ranks = all_but(2, waits(ALL_REDUCE, groups=1), waits(BARRIER, groups=1))
    assert judged_frozen(ranks, seconds=3.0).verdict is Verdict.CANNOT_TELL


def test_who_makes_a_group_alone_is_odd_and_who_goes_past_one_alone_is_too() -> None:
    """Of those who have made as many, some may have made them in another order."""
    assert named(judged_frozen(all_but(0, waits(ALL_REDUCE), waits(NEW_GROUP, groups=3)))) == {0}
    assert named(judged_frozen(all_but(0, waits(ALL_REDUCE, groups=3), waits(NEW_GROUP, groups=3)))) == set()
    assert named(judged_frozen(all_but(2, waits(NEW_GROUP), waits(ALL_REDUCE)))) == {2}


def test_many_who_wait_for_a_store_key_convict_nobody() -> None:
    assert named(judged_frozen(all_but(2, waits(STORE_GET), waits(ALL_REDUCE)))) == set()


def test_receivers_are_in_a_ring_only_if_all_ranks_receive() -> None:
    assert named(judged_frozen({rank: waits(RECV) for rank in range(4)})) == {0, 1, 2, 3}
    assert named(judged_frozen({0: waits(ALL_REDUCE), 1: waits(ALL_REDUCE), 2: waits(RECV), 3: waits(RECV)})) == set()


@pytest.mark.parametrize(
    "rank",
    [
        Rank((MAIN, STEP, SYNCHRONIZE)),
        Rank((MAIN, STEP, ALL_REDUCE), devices=("/dev/nvidia0",)),
        Rank((MAIN, STEP, ALL_REDUCE), bytes_per_second=1 << 20),
    ],
    ids=["device", "collective on devices", "data on its way"],
)
def test_a_long_step_in_which_all_wait_is_no_hang_yet(rank: Rank) -> None:
    """A step of twenty seconds on the GPUs, or a large transfer, leaves every main thread where it is."""
    ranks = dict.fromkeys(range(4), rank)
    assert judged_frozen(ranks, seconds=20.0).verdict is Verdict.CANNOT_TELL
    assert named(judged_frozen(ranks, seconds=70.0)) == set()


@pytest.mark.parametrize(
    "rank",
    [
        Rank((MAIN, QUEUE_GET, PIPE_RECV), syscall="read", target="pipe:[1]", wchan="pipe_read"),
        Rank((MAIN, EVENT_LOOP), syscall="epoll_wait", wchan="do_epoll_wait"),
    ],
    ids=["queue", "event loop"],
)
def test_an_idle_server_is_never_hung(rank: Rank) -> None:
    """Rank 0 waits for requests, the others for what it will broadcast."""
    for seconds in (6.0, 600.0):
        diagnosis = judged_frozen(all_but(0, waits(ALL_GATHER), rank), seconds)
        assert (diagnosis.verdict, named(diagnosis)) == (Verdict.CANNOT_TELL, set())


@pytest.mark.parametrize(
    "rank",
    [
        Rank((MAIN, RETRY), *ASLEEP),
        Rank((MAIN, LIBRARY), *ASLEEP),
        Rank((MAIN, STEP), syscall="wait4", wchan="do_wait"),
        Rank((MAIN, STEP), syscall="read", target="pipe:[1]", wchan="anon_pipe_read"),
        Rank((MAIN, STEP), syscall="fsync", target="/ckpt/model.pt", wchan="jbd2_log_wait_commit", state="D"),
        Rank((MAIN, STEP), syscall="sendto", target="socket:[7]", wchan="sk_stream_wait_memory"),
        Rank((MAIN, POOL_GET, EVENT_WAIT)),
    ],
    ids=["retry", "a library that polls", "os.system", "a pipe", "fsync", "a full socket", "a pool"],
)
def test_where_a_healthy_rank_may_be_for_a_while_it_is_no_culprit_in_the_first_minute(rank: Rank) -> None:
    ranks = all_but(0, waits(ALL_REDUCE), rank)
    assert judged_frozen(ranks, seconds=20.0).verdict is Verdict.CANNOT_TELL
    assert named(judged_frozen(ranks, seconds=70.0)) == {0}


def test_a_stopped_rank_is_told_at_once_and_one_that_may_come_is_not_told_with_it() -> None:
    asleep = Rank((MAIN, STEP), *ASLEEP)
    stopped = Rank((MAIN, STEP), wchan="do_signal_stop", state="T")
    ranks = {0: waits(ALL_REDUCE), 1: asleep, 2: waits(ALL_REDUCE), 3: stopped}
    assert named(judged_frozen(ranks, seconds=3.0)) == {3}
    assert named(judged_frozen(ranks, seconds=6.0)) == {1, 3}


def test_a_frozen_cgroup_holds_a_rank_whatever_its_stack() -> None:
    frozen = judged_frozen(all_but(1, waits(ALL_REDUCE), Rank((MAIN, ALL_REDUCE), wchan="do_freezer_trap")))
    assert (named(frozen), frozen.findings[0].cause) == ({1}, Cause.SIGNAL)


def test_alone_in_a_collective_while_devices_hold_all_others_is_the_odd_one() -> None:
    """Launches and `.item()` block in any line once a device's queue is full: these are not outside communication."""
    synchronising = Rank((MAIN, Frame("synchronize", "torch/cuda/__init__.py", 892)))
    launching = Rank((MAIN, Frame("attend", "/srv/model.py", 128)), state="R")
    reading = Rank((MAIN, Frame("loss_of", "/srv/train.py", 158)), state="R")
    ranks = {0: synchronising, 1: synchronising, 2: launching, 3: reading, 4: waits(BARRIER)}
    answer = filed(ranks)
    assert [(finding.culprit_ranks, finding.certainty) for finding in answer.findings] == [((4,), Certainty.SUSPECTED)]
    alike = filed(ranks | {2: reading})
    assert 4 not in named(alike)
    assert 4 not in named(filed({0: synchronising, 1: launching, 2: reading, 3: waits(BARRIER), 4: waits(BARRIER)}))


def filed(ranks: Mapping[int, Rank]) -> Diagnosis:
    """The verdict on files with the stacks alone."""
    nothing = Missing(source="files", reason=Reason.NOT_FOUND)
    looks = [_look(rank, one, 0.0, len(ranks)) for rank, one in ranks.items()]
    bare = [look.model_copy(update={"looked_at_ns": None, "process": nothing, "fds": nothing}) for look in looks]
    return judged([NodeSnapshot(live=False, ranks=tuple(bare))])


def recorded_an_hour_ago(*rows: Row) -> Trace:
    made = trace_of(rows, {"0": range(4)})
    return made.model_copy(update={"created_ns": array("q", [at - 3600 * 10**9 for at in made.created_ns])})


DONE_LONG_AGO = recorded_an_hour_ago(Row("0", 1))
IN_FLIGHT = recorded_an_hour_ago(Row("0", 1), Row("0", 2, ISSUED))


@pytest.mark.parametrize(
    ("trace", "verdict"), [(DONE_LONG_AGO, Verdict.CANNOT_TELL), (IN_FLIGHT, Verdict.HUNG), (None, Verdict.HUNG)]
)
def test_devices_on_which_nothing_is_in_flight_may_be_at_work(trace: Trace | None, verdict: Verdict) -> None:
    """Of what a CUDA graph replays no record tells: the job may have been well for hours since its last operation."""
    answer = judged_frozen(dict.fromkeys(range(4), replace(waits(SYNCHRONIZE), trace=trace)), seconds=70.0)
    assert answer.verdict is verdict
    assert ("nothing is in flight on record" in answer.headline) is (trace is DONE_LONG_AGO)


@pytest.mark.parametrize(("trace", "verdict"), [(DONE_LONG_AGO, Verdict.CANNOT_TELL), (IN_FLIGHT, Verdict.HUNG)])
def test_how_long_a_job_has_stood_is_not_told_by_records_of_nothing(trace: Trace, verdict: Verdict) -> None:
    """Who is elsewhere for a moment, while others wait for devices that replay graphs, is not accused of hours."""
    waiting = replace(waits(SYNCHRONIZE), trace=trace)
    ranks = all_but(2, waiting, Rank((MAIN, STEP), *ASLEEP, trace=DONE_LONG_AGO))
    assert judged_frozen(ranks, seconds=3.0).verdict is verdict
    assert named(judged_frozen(ranks, seconds=6.0)) == {2}


def test_replica_group_that_waits_for_others_is_not_sent_to_its_network() -> None:
    """Seen with torchft: a replica group of one rank, whose lighthouse waits for another job."""
    answer = judged_frozen({0: waits(BACKWARD, QUORUM)})
    assert (answer.verdict, answer.findings[0].kind) == (Verdict.HUNG, Kind.STUCK_TOGETHER)
    assert (answer.findings[0].culprits, answer.findings[0].cause) == ((), Cause.RENDEZVOUS)
    assert "other replica groups" in answer.headline
    assert [step.command for step in answer.findings[0].next_steps] == ["unhang jobs"]


def test_rank_that_its_own_replica_group_waits_for_is_named() -> None:
    """Its peers wait in the quorum for it first."""
    asleep = Rank((MAIN, STEP), *ASLEEP)
    answer = judged_frozen({0: waits(BACKWARD, QUORUM), 1: asleep, 2: waits(BACKWARD, QUORUM)})
    assert [finding.kind for finding in answer.findings] == [Kind.RANK_NOT_JOINED]
    assert [culprit.rank for culprit in answer.findings[0].culprits] == [1]
