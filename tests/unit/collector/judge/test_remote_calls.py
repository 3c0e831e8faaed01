"""Jobs of remote calls, as PyTorch's example of a parameter server: their last collective may be hours old."""

from collections.abc import Iterable

import pytest

from shared.answer.diagnosis import Diagnosis
from shared.answer.words import Kind, Verdict
from shared.missing import Missing, Reason
from shared.wire.snapshot import Beat, Identity, NodeSnapshot, Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, Thread
from tests.build.jobs.judged import judged
from tests.build.jobs.records import BEGUN_NS, Row, trace_of

SITE = "/env/lib/python3.11/site-packages/torch"
NOTHING = Missing(source="x", reason=Reason.NOT_FOUND)
START = trace_of([Row("default", 1, backend="gloo")], {"default": range(4)})

DRIVES = (Frame("run_ps", "/srv/ps.py", 120), Frame("wait_all", f"{SITE}/futures/__init__.py", 334))
ENDS = (Frame("run", "/srv/ps.py", 157), Frame("_wait_all_workers", f"{SITE}/distributed/rpc/api.py", 320))
TRAINS = (Frame("_run_function", f"{SITE}/distributed/rpc/internal.py", 209), Frame("next_batch", "/srv/ps.py", 82))
UPDATES = (TRAINS[0], Frame("train", "/srv/ps.py", 98), Frame("rpc_sync", f"{SITE}/distributed/rpc/api.py", 842))


def look(rank: int, at: float, *, calls: tuple[Frame, ...], wakes: bool) -> RankSnapshot:
    """One rank, `at` seconds after the last collective, whose second thread runs a call and `wakes` ten times a second.

    Rank 0 drives the others: it waits for what they return.
    """
    at_ns, pid = BEGUN_NS + int(at * 1e9), 10 + rank
    waiting = DRIVES if rank == 0 else ENDS
    threads = [Thread(tid=pid, name="MainThread", frames=(0, 1), switches=7)]
    if calls:
        served = tuple(range(2, 2 + len(calls)))
        threads.append(Thread(tid=100 + pid, name="Dummy-1", frames=served, switches=int(10 * at) if wakes else 7))
    beat = Beat(at_ns=at_ns, cpu_seconds=1.0, main_switches=7, io_bytes=0)
    return RankSnapshot(
        identity=Identity(job="ps", rank=rank, world_size=4, host="a", pid=pid, started_at=BEGUN_NS / 1e9 - 60),
        looked_at_ns=at_ns,
        process=Process(pid=pid, state="S", wchan="futex_wait", syscall=Syscall(name="futex"), before=beat, after=beat),
        stacks=Stacks(pid=pid, frames=(*waiting, *calls), threads=tuple(threads)),
        fds=NOTHING,
        logs=NOTHING,
        recorder=START,
    )


def diagnosed(times: Iterable[float], *, asleep: int | None, all_asleep: bool = False) -> Diagnosis:
    """The verdict on a driver and three trainers, of which `asleep` reads its next batch and does not wake any more.

    The others of a job that hangs wait for what the parameter server answers once all have called, or sleep as well.
    """
    looks = []
    for at in times:
        ranks = [look(0, at, calls=(), wakes=False)]
        for rank in (1, 2, 3):
            calls = TRAINS if all_asleep or asleep in (None, rank) else UPDATES
            ranks.append(look(rank, at, calls=calls, wakes=asleep is None))
        looks.append(NodeSnapshot(host="a", taken_at_ns=BEGUN_NS + int(at * 1e9), ranks=tuple(ranks)))
    return judged(looks)


def test_driver_that_waits_for_those_at_work_is_no_hang() -> None:
    """However long ago the last collective was."""
    answer = diagnosed((3600.0, 3603.0), asleep=None)
    assert (answer.verdict, answer.findings) == (Verdict.NOT_HUNG, ())
    assert "ranks 1-3 are at work in a remote procedure call" in answer.headline


def test_trainer_that_all_wait_for_is_named() -> None:
    """And not the driver, which waits for futures."""
    answer = diagnosed((3600.0, 3606.0), asleep=2)
    assert [(one.kind, one.culprit_ranks) for one in answer.findings] == [(Kind.RANK_NOT_JOINED, (2,))]


def test_trainers_that_a_driver_waits_for_are_named_though_they_are_most() -> None:
    """All sleep in what it has called: it is not the odd one."""
    answer = diagnosed((3600.0, 3606.0), asleep=1, all_asleep=True)
    assert [(one.kind, one.culprit_ranks, one.victims) for one in answer.findings] == [
        (Kind.RANK_NOT_JOINED, (1, 2, 3), "0")
    ]


def test_whose_calls_were_seen_once_alone_nobody_can_tell() -> None:
    """Who watches sees that main threads stand still: those that run calls are others, which take their time."""
    ranks = (look(rank, 3600.0, calls=TRAINS if rank == 0 else (), wakes=False) for rank in range(4))
    watched = {"idle_for_seconds": 90.0, "watched_for_seconds": 200.0}
    seen = tuple(rank.model_copy(update=watched) for rank in ranks)
    answer = judged([NodeSnapshot(host="a", taken_at_ns=BEGUN_NS + int(3600e9), ranks=seen)])
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())


def test_trainer_that_has_stood_still_for_a_moment_is_not() -> None:
    """The last collective says nothing about how long its call takes."""
    answer = diagnosed((3600.0, 3602.0), asleep=2)
    assert (answer.verdict, answer.findings) == (Verdict.CANNOT_TELL, ())


@pytest.mark.parametrize(
    ("threads", "verdict"),
    [
        (((200, 7), (201, 7), (202, 7)), Verdict.NOT_HUNG),
        (((200, 2557), (200, 2803), (200, 2803)), Verdict.NOT_HUNG),
        (((200, 7), (200, 8), (200, 9)), Verdict.HUNG),
    ],
    ids=["a thread for each call", "one thread for all calls", "one call"],
)
@pytest.mark.parametrize("serves", [TRAINS, UPDATES], ids=["sleeps", "calls back"])
def test_server_whose_calls_come_and_go_is_no_hang(
    serves: tuple[Frame, ...], threads: tuple[tuple[int, int], ...], verdict: Verdict
) -> None:
    """Each call sleeps for seconds, or waits for the one that it calls back; who waits for it wakes once a call."""
    looks = []
    for at, (tid, switches) in zip((3600.0, 3607.0, 3609.0), threads, strict=True):
        ranks = [look(rank, at, calls=serves if rank == 1 else (), wakes=False) for rank in range(4)]
        assert isinstance(ranks[1].stacks, Stacks)
        main, call = ranks[1].stacks.threads
        served = (main, call.model_copy(update={"tid": tid, "switches": switches}))
        ranks[1] = ranks[1].model_copy(update={"stacks": ranks[1].stacks.model_copy(update={"threads": served})})
        looks.append(NodeSnapshot(host="a", taken_at_ns=BEGUN_NS + int(at * 1e9), ranks=tuple(ranks)))
    assert judged(looks).verdict is verdict


def test_calls_that_wait_for_each_other_hang() -> None:
    times = (3600.0, 3606.0)
    ranks = ((at, tuple(look(rank, at, calls=UPDATES, wakes=False) for rank in range(4))) for at in times)
    looks = [NodeSnapshot(host="a", taken_at_ns=BEGUN_NS + int(at * 1e9), ranks=each) for at, each in ranks]
    assert judged(looks).verdict is Verdict.HUNG
