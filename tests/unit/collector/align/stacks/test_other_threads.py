"""Step 10: of a rank that waits for a thread of its own the finding shows which threads these may be."""

import random

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Finding, StackEvidence
from shared.answer.words import Kind
from shared.missing import Missing, Reason
from shared.wire.snapshot import Child, NodeSnapshot, Process
from shared.wire.stacks import Frame, Stacks, StackTable, Thread
from tests.build.jobs.four_ranks import looks_without
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import Seen

LIB = "/usr/lib/python3.11"
MAIN = Frame("flush_metrics", "/home/ada/train.py", 40)
RESULT = (Frame("Future.result", f"{LIB}/concurrent/futures/_base.py", 451), Frame("wait", f"{LIB}/threading.py", 320))
JOIN = (Frame("Thread.join", f"{LIB}/threading.py", 1119), Frame("_wait_for_tstate_lock", f"{LIB}/threading.py", 1139))
SHUTDOWN = (Frame("_shutdown", f"{LIB}/threading.py", 1590),)
BEGUN = (Frame("_bootstrap", f"{LIB}/threading.py", 1002), Frame("run", f"{LIB}/threading.py", 982))
POOL = (*BEGUN, Frame("_worker", f"{LIB}/concurrent/futures/thread.py", 83))
WAIT = Frame("Condition.wait", f"{LIB}/threading.py", 320)
CALLBACK = Frame("wait_for_room", "/home/ada/buffer.py", 7)
HEARTBEAT = Frame("beat", "/home/ada/monitor.py", 3)
QUEUE = Frame("get", f"{LIB}/queue.py", 171)
MONITOR = Frame("TMonitor.run", "/env/lib/python3.11/site-packages/tqdm/_monitor.py", 60)

Threads = dict[str, tuple[Frame, ...]]


def stacks(main: tuple[Frame, ...], threads: Threads, *, pid: int = 1003) -> Stacks:
    """Stacks of rank 3, or another process, with named threads beside the main one."""
    table = StackTable()
    made = [Thread(tid=pid, name="MainThread", frames=tuple(map(table.add, main)))]
    made += [
        Thread(tid=2000 + at, name=name, frames=tuple(map(table.add, frames)))
        for at, (name, frames) in enumerate(threads.items())
    ]
    return Stacks(pid=pid, frames=table.frames, threads=tuple(made))


def looks_at_threads(main: tuple[Frame, ...], threads: Threads) -> list[NodeSnapshot]:
    """Rank 3 of four stays away, with these threads."""
    return with_rank(looks_without({3: Seen(main)}, after_seconds=300.0), 3, stacks=stacks(main, threads))


def finding(main: tuple[Frame, ...], threads: Threads) -> Finding:
    """The one finding, which names rank 3 and must not depend on the threads' order."""
    answer = diagnose(looks_at_threads(main, threads), Expected(world_size=4)).findings
    shuffled = list(threads.items())
    random.Random(3).shuffle(shuffled)
    again = diagnose(looks_at_threads(main, dict(shuffled)), Expected(world_size=4)).findings
    assert [_told(each) for each in answer] == [_told(each) for each in again]
    assert [each.culprit_ranks for each in answer] == [(3,)]
    return answer[0]


def _told(finding: Finding) -> list[str]:
    """What is said of threads beside the main one."""
    stacks = [evidence for evidence in finding.evidence if isinstance(evidence, StackEvidence)]
    return [evidence.text for evidence in stacks if evidence.thread != "MainThread"]


def test_thread_of_a_pool_that_a_future_waits_for() -> None:
    """Its stack is shown whole; a heartbeat of the user's own fills no future."""
    threads = {"pool_0": (*POOL, CALLBACK, WAIT), "pool_1": (*POOL, QUEUE), "heart": (*BEGUN, HEARTBEAT)}
    told = finding((MAIN, *RESULT), threads)
    assert _told(told) == [
        "thread pool_0 of rank 3, which may be the one that it waits for, is waiting for another thread, "
        "at wait_for_room (/home/ada/buffer.py:7)"
    ]
    shown = [e for e in told.evidence if isinstance(e, StackEvidence) and e.thread == "pool_0"]
    assert [place.function for place in shown[0].frames][-2:] == ["wait_for_room", "Condition.wait"]
    assert told.where is not None
    assert told.where.user is not None
    assert told.where.user.function == "flush_metrics"


def test_the_one_that_keeps_a_process_from_its_end_is_what_to_change() -> None:
    """Where several may be it, the act names none of them."""
    saver = {"saver": (*BEGUN, CALLBACK, WAIT)}
    acts = [
        diagnose(looks_at_threads(SHUTDOWN, threads), Expected(world_size=4)).action
        for threads in (saver, saver | {"heart": (*BEGUN, HEARTBEAT)})
    ]
    told = ["have thread saver at wait_for_room (/home/ada/buffer.py:7) come to its end" in act.text for act in acts]
    assert told == [True, False]


def test_of_several_that_it_may_be_none_is_singled_out() -> None:
    """A join may wait for any of them."""
    threads = {"saver": (*BEGUN, CALLBACK, WAIT), "heart": (*BEGUN, HEARTBEAT)}
    told = _told(finding((MAIN, *JOIN), threads))
    assert [text.partition(",")[0] for text in told] == ["thread heart of rank 3", "thread saver of rank 3"]
    assert all("may be one of 2 that it waits for" in text for text in told)


@pytest.mark.parametrize(
    "threads",
    [
        {},
        {"idle": (*POOL, QUEUE)},
        {"server": (*BEGUN, Frame("serve", "/home/ada/rpc.py", 3), QUEUE)},
        {"tqdm": (*BEGUN, MONITOR, WAIT)},
    ],
)
def test_idle_threads_and_those_of_libraries_are_not_told(threads: Threads) -> None:
    """No thread is shown that shows nothing."""
    assert _told(finding((MAIN, *JOIN), threads)) == []


def test_threads_of_a_rank_that_waits_for_none_are_not_told() -> None:
    """Its main thread is at work, or asleep, in its own code."""
    assert _told(finding((MAIN,), {"saver": (*BEGUN, CALLBACK, WAIT)})) == []


def test_many_threads_are_cut() -> None:
    """A hostile job may have thousands."""
    assert len(_told(finding((MAIN, *JOIN), {f"t{at:04}": (*BEGUN, CALLBACK, WAIT) for at in range(3000)}))) == 4


def test_who_has_not_come_may_be_a_process_that_rank_0_has_started() -> None:
    """Lightning's rank 0 is the parent of the others: where the one stands that has not come is told."""
    meets = Frame("init_process_group", "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 1854)
    asks = Frame("ask_for_quota", "/home/ada/train.py", 2)
    child = Child(process=Process(pid=77, state="S"), stacks=stacks((MAIN, asks), {}, pid=77))
    alone = looks_without({}, absent=(1, 2, 3), after_seconds=300.0)
    no_record = Missing(source="recorder", reason=Reason.NOT_ENABLED)
    looks = with_rank(alone, 0, stacks=stacks((MAIN, meets), {}, pid=1000), recorder=no_record, children=(child,))
    (finding,) = diagnose(looks, Expected()).findings
    assert finding.kind is Kind.STARTUP_INCOMPLETE
    (told,) = [each for each in finding.evidence if "77" in each.text]
    assert told.text.startswith("process 77, which rank 0 has started, is in user code, at ask_for_quota")
