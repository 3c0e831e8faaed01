"""Which thread stands for a rank, and that a main thread that idles is no progress."""

from dataclasses import replace

import pytest

from collector.align.progress import Motion, motion_of
from collector.align.roster import Presence, RankView, Roster
from collector.align.stacks.activity import activity_of
from collector.align.stacks.rank_activities import activities_of
from collector.align.stacks.tables.row_types import Doing
from collector.align.stacks.telling_threads import with_telling_threads
from shared.missing import Missing, Reason
from shared.wire.snapshot import Beat, Child, Identity, Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, StackTable, Thread

SITE = "/env/lib/python3.11/site-packages"
STANDARD = "/usr/lib/python3.11"
MAIN_LOOP = Frame("Worker.main_loop", f"{SITE}/ray/_private/worker.py", 1069)
JOIN = Frame("Thread.join", f"{STANDARD}/threading.py", 1119)
SUPERVISE = Frame("supervise", "/home/ada/run.py", 30)
BOOTSTRAP = Frame("Thread._bootstrap", f"{STANDARD}/threading.py", 1002)
RUN = Frame("Thread.run", f"{STANDARD}/threading.py", 982)
TRAIN = Frame("train", "/home/ada/train.py", 12)
EVALUATE = Frame("evaluate", "/home/ada/train.py", 5)
REPORT = Frame("report_often", "/home/ada/metrics.py", 8)
ALL_REDUCE = Frame("all_reduce", f"{SITE}/torch/distributed/distributed_c10d.py", 3252)
BACKWARD = Frame("_engine_run_backward", f"{SITE}/torch/autograd/graph.py", 979)
SHUTDOWN = Frame("_all_gather", f"{SITE}/torch/distributed/rpc/api.py", 257)
WAIT = Frame("Condition.wait", f"{STANDARD}/threading.py", 327)
RUN_CALL = Frame("_run_function", f"{SITE}/torch/distributed/rpc/internal.py", 209)
SERVE = Frame("serve", "/home/ada/train.py", 90)
RPC_SYNC = Frame("rpc_sync", f"{SITE}/torch/distributed/rpc/api.py", 842)
SAVE = Frame("save", f"{SITE}/torch/distributed/checkpoint/state_dict_saver.py", 170)
ANSWER = Frame("_wait_for_response", f"{SITE}/torch/distributed/checkpoint/_async_process_executor.py", 143)
HOOK = Frame("hook", "/home/ada/train.py", 70)

ASLEEP = "clock_nanosleep"

Stack = tuple[Frame, ...]
WAITS: Stack = (BOOTSTRAP, RUN, TRAIN, ALL_REDUCE)
STAYS: Stack = (BOOTSTRAP, RUN, TRAIN._replace(line=11), EVALUATE)
REPORTS: Stack = (BOOTSTRAP, RUN, REPORT)


def view(
    rank: int, main: Stack, *others: Stack, switches: int = 5, looks: int = 1, syscall: str = "epoll_wait"
) -> RankView:
    """A rank whose main thread wakes a hundred times between two looks, and its other threads `switches - 5` times."""
    return RankView(
        rank,
        Presence.RUNNING,
        tuple(_look(rank, main, others, at, 5 if at == 0 else switches, syscall) for at in range(looks)),
        host="a",
    )


def _look(rank: int, main: Stack, others: tuple[Stack, ...], at: int, switches: int, syscall: str) -> RankSnapshot:
    pid, table = 10 * rank + 10, StackTable()
    threads = [
        Thread(tid=pid + n, name=f"t{n}", frames=tuple(map(table.add, frames)), switches=switches)
        for n, frames in enumerate((main, *others))
    ]
    beat = Beat(at_ns=at * 5_000_000_000, cpu_seconds=0.0, main_switches=100 * at, io_bytes=0)
    nothing = Missing(source="x", reason=Reason.NOT_FOUND)
    return RankSnapshot(
        identity=Identity(job="j", rank=rank, host="a", pid=pid, started_at=1.0),
        looked_at_ns=at * 5_000_000_000,
        process=Process(pid=pid, state="S", syscall=Syscall(name=syscall), before=beat, after=beat),
        stacks=Stacks(pid=pid, frames=table.frames, threads=tuple(threads)),
        fds=nothing,
        logs=nothing,
        recorder=nothing,
    )


def told(*views: RankView) -> dict[int, tuple[Frame, ...]]:
    """Return the stack of the thread that stands for each rank."""
    found = with_telling_threads({view.rank: view for view in views})
    return {rank: activity_of(each).frames for rank, each in found.items()}


def motion(*views: RankView) -> dict[int, Motion]:
    """Return what moved."""
    ranks = with_telling_threads({view.rank: view for view in views})
    roster = Roster(job="j", world_size=len(ranks), ranks=ranks, conflicts=(), live=True, last_look_ns=1)
    return motion_of(roster, activities_of(roster.present())).by_rank


def test_the_loop_runs_in_a_thread() -> None:
    """Who waits shows which thread it is; who does not wait has one that began alike."""
    found = told(*(view(rank, (MAIN_LOOP,), REPORTS, WAITS) for rank in (0, 2)), view(1, (MAIN_LOOP,), STAYS, REPORTS))
    assert found == {0: WAITS, 1: STAYS, 2: WAITS}


def test_the_loop_waits_for_its_device() -> None:
    """Launches do not wait: all that the device lacks may be what another rank has not launched."""
    waits = (BOOTSTRAP, RUN, TRAIN, Frame("synchronize", f"{SITE}/torch/cuda/__init__.py", 1281))
    found = told(view(0, (MAIN_LOOP,), REPORTS, waits), view(1, (MAIN_LOOP,), STAYS, REPORTS))
    assert found == {0: waits, 1: STAYS}


def test_a_thread_that_began_otherwise_is_not_the_loop() -> None:
    """An engine that is served idles, while the others wait for its broadcast; its reporter is not to blame."""
    found = with_telling_threads({0: view(0, (MAIN_LOOP,), REPORTS), 1: view(1, (TRAIN, ALL_REDUCE))})
    assert activity_of(found[0]).may_be_idle
    assert told(view(0, (MAIN_LOOP,), REPORTS), view(1, (MAIN_LOOP,), WAITS))[0] == (MAIN_LOOP,)


def test_of_two_that_began_alike_neither_is_told() -> None:
    assert told(view(0, (MAIN_LOOP,), STAYS, STAYS), view(1, (MAIN_LOOP,), WAITS))[0] == (MAIN_LOOP,)


def test_a_main_thread_that_waits_itself_stands_for_the_rank() -> None:
    """Whatever its helpers do."""
    assert told(view(0, (TRAIN, ALL_REDUCE), WAITS))[0] == (TRAIN, ALL_REDUCE)


def test_a_main_thread_at_work_stands_for_the_rank() -> None:
    """A helper in a collective does not excuse it."""
    assert told(view(0, (TRAIN, EVALUATE), WAITS), view(1, (TRAIN, ALL_REDUCE)))[0] == (TRAIN, EVALUATE)


def test_main_threads_that_all_sleep_at_one_place_are_at_home() -> None:
    """A loop of one's own that looks now and then whether the training is over."""
    sleepers = [view(0, (SUPERVISE,), WAITS, syscall=ASLEEP), view(1, (SUPERVISE,), STAYS, syscall=ASLEEP)]
    assert told(*sleepers) == {0: WAITS, 1: STAYS}
    at_work = [view(0, (SUPERVISE,), WAITS), view(1, (SUPERVISE,), STAYS)]
    assert told(*at_work) == {0: (SUPERVISE,), 1: (SUPERVISE,)}


@pytest.mark.parametrize("syscall", ["pause", "rt_sigtimedwait"])
def test_a_main_thread_that_waits_for_a_signal_is_at_home(syscall: str) -> None:
    """It stays until somebody ends the job; where no thread beside it trains, it stands for the rank itself."""
    found = told(view(0, (MAIN_LOOP,), WAITS), view(1, (SUPERVISE,), STAYS, syscall=syscall))
    assert found == {0: WAITS, 1: STAYS}
    assert told(view(0, (TRAIN, ALL_REDUCE)), view(1, (SUPERVISE,), syscall=syscall))[1] == (SUPERVISE,)


def test_a_main_thread_that_joins_its_loop() -> None:
    assert told(view(0, (SUPERVISE, JOIN), WAITS), view(1, (SUPERVISE, JOIN), STAYS)) == {0: WAITS, 1: STAYS}


def test_autograd_calls_hooks_in_a_thread_of_its_own() -> None:
    """Begun by C++, it has nothing of `threading` at its foot; a helper that has is none of autograd's."""
    found = with_telling_threads(
        {0: view(0, (TRAIN, BACKWARD), REPORTS, (HOOK,)), 1: view(1, (TRAIN, BACKWARD), REPORTS)}
    )
    assert activity_of(found[0]).frames == (HOOK,)
    assert activity_of(found[0]).doing is Doing.OUTSIDE
    assert activity_of(found[1]).doing is Doing.WORK
    assert told(view(0, (TRAIN, BACKWARD), (HOOK, ALL_REDUCE)))[0] == (HOOK, ALL_REDUCE)


def test_a_main_thread_that_idles_is_no_progress() -> None:
    """It wakes a hundred times; its loop does not."""
    still = motion(view(0, (MAIN_LOOP,), WAITS, looks=2), view(1, (MAIN_LOOP,), STAYS, looks=2))
    assert set(still.values()) == {Motion.FROZEN}
    assert motion(view(0, (MAIN_LOOP,), REPORTS, looks=2)) == {0: Motion.FROZEN}


def test_a_loop_in_a_thread_that_wakes_moves() -> None:
    moving = motion(view(0, (MAIN_LOOP,), WAITS, looks=2, switches=500), view(1, (MAIN_LOOP,), STAYS, looks=2))
    assert moving == {0: Motion.BUSY, 1: Motion.FROZEN}
    assert motion(view(0, (TRAIN, EVALUATE), looks=2)) == {0: Motion.BUSY}


def test_a_process_that_saves_checkpoints_waits_for_those_of_other_ranks() -> None:
    """The thread that waits for it stands for the rank, and waits as it does; on the rank that is late, too."""
    saves = (BOOTSTRAP, RUN, SAVE, ANSWER)
    ranks = with_telling_threads(
        {
            0: with_child(view(0, (SUPERVISE, WAIT), REPORTS, saves), (SAVE, ALL_REDUCE)),
            1: with_child(view(1, (SUPERVISE, WAIT), REPORTS, saves), (SAVE, EVALUATE)),
        }
    )
    waits, late = (activity_of(ranks[rank]) for rank in (0, 1))
    assert (waits.doing, waits.op, waits.frames) == (Doing.COLLECTIVE, "all_reduce", saves)
    assert (late.doing, late.frames) == (Doing.OUTSIDE, saves)
    assert "at evaluate" in late.child


def with_child(of: RankView, frames: Stack) -> RankView:
    """Give the rank a child process whose main thread stands there."""
    pid, table = 100 + of.rank, StackTable()
    threads = (Thread(tid=pid, name="main", frames=tuple(map(table.add, frames))),)
    child = Child(process=Process(pid=pid, state="S"), stacks=Stacks(pid=pid, frames=table.frames, threads=threads))
    return replace(of, looks=tuple(look.model_copy(update={"children": (child,)}) for look in of.looks))


def test_a_call_of_another_rank_stands_for_one_that_waits() -> None:
    """Unless that waits for a third rank in turn."""
    ends = (TRAIN, SHUTDOWN, WAIT)
    assert told(view(0, ends, (RUN_CALL, SERVE)))[0] == (RUN_CALL, SERVE)
    assert told(view(0, ends, (RUN_CALL, SERVE, RPC_SYNC)))[0] == ends
    assert told(view(0, ends, (RUN_CALL, SERVE, RPC_SYNC), (RUN_CALL, SERVE)))[0] == (RUN_CALL, SERVE)
    assert told(view(0, (TRAIN, EVALUATE), (RUN_CALL, SERVE)))[0] == (TRAIN, EVALUATE)
