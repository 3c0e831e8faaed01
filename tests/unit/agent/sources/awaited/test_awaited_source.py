"""What real threads of real interpreters wait for in their own process, as their memory tells."""

import sys
from collections.abc import Mapping
from contextlib import suppress

import pytest

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.proc.memory.mappings import read_mappings
from agent.proc.memory.process_memory import open_memory
from agent.proc.procfs import ProcFs
from agent.sources.awaited.awaited_source import AwaitedSource
from agent.sources.awaited.store_server import keys_awaited
from shared.wire.stacks import Awaited, OfProcesses
from tests.build.processes.looking import ask_source, rank_of
from tests.build.processes.processes import running, until
from tests.build.processes.pythons import pythons

pytestmark = pytest.mark.ptrace

PROGRAM = """
import asyncio, concurrent.futures, multiprocessing, os, queue, threading

class Loader:
    def __init__(self, *items):
        self.batches = queue.Queue()
        self.reader = threading.Thread(target=list, args=(items,), name="reader")
        self.reader.start()
        self.reader.join()

    def next_batch(self, **limit):
        return self.batches.get(**limit)

async def take(samples):
    return await samples.get()

async def trainer(samples):
    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0), take(samples))

async def rollout():
    await asyncio.wait_for(asyncio.create_task(trainer(asyncio.Queue()), name="trainer"), None)

async def batches():
    yield 1
    await for_ever()

async def through_a_generator():
    async for _ in batches():
        pass

async def for_ever():
    await asyncio.get_running_loop().create_future()

def stuck():
    threading.Event().wait()

def rooted(operation, **passed):
    lock = threading.Lock()
    lock.acquire()
    source = f"def {operation}({', '.join(passed)}): lock.acquire()"
    exec(compile(source, "torch/distributed/distributed_c10d.py", "exec"), torch := {"lock": lock})
    torch[operation](**passed)

def taken_by_the_dead(lock):
    if (child := os.fork()) == 0:
        lock.acquire()
        os._exit(1)
    os.waitpid(child, 0)

def wait_notified(condition):
    with condition:
        condition.wait()

def read_after_the_dead(results):
    taken_by_the_dead(results._rlock)
    results.get()

def take_twice(lock):
    with lock, lock:
        pass

def join(thread):
    thread.start()
    thread.join()
"""

CASES: Mapping[str, tuple[str, dict[str, object]]] = {
    "the thread that filled it has ended": (
        "Loader().next_batch()",
        {"kind": "queue", "call": "Queue.get", "size": 0, "ended": ("reader",), "alone": True, "limited": False},
    ),
    "for a while": ("Loader().next_batch(timeout=900)", {"kind": "queue", "limited": True, "ended": ("reader",)}),
    "others live": (
        "threading.Thread(target=stuck, daemon=True).start()\nLoader().next_batch()",
        {"kind": "queue", "alone": False},
    ),
    "a full queue": (
        "full = queue.Queue(1)\nfull.put(1)\nfull.put(2)",
        {"kind": "queue", "call": "Queue.put", "size": 1, "ended": ()},
    ),
    "a future": ("concurrent.futures.Future().result()", {"kind": "future", "call": "Future.result"}),
    "a root": (
        "rooted('broadcast', src=5, group_src=1)",
        {"kind": "rooted_call", "call": "broadcast", "root": 1},
    ),
    "a root before PyTorch 2.6": ("rooted('gather', dst=5, group_dst_rank=1)", {"kind": "rooted_call", "root": 1}),
    "a root of the world before PyTorch 2.6": ("rooted('reduce', dst=5)", {"kind": "rooted_call", "root": 5}),
    "an event": ("stuck()", {"kind": "event", "call": "Event.wait"}),
    "a queue in a task of a task": (
        "asyncio.run(rollout())",
        {"kind": "queue", "call": "Queue.get", "size": 0},
    ),
    "a future of an event loop": ("asyncio.run(for_ever())", {"kind": "task", "call": "for_ever", "task": "Task-1"}),
}

SHARED: Mapping[str, tuple[str, OfProcesses]] = {
    "multiprocessing.Barrier(3).wait()": ("Barrier.wait", OfProcesses(kind="barrier", parties=3, come=1)),
    "multiprocessing.Event().wait()": ("Event.wait", OfProcesses(kind="event")),
    "wait_notified(multiprocessing.Condition())": ("Condition.wait", OfProcesses(kind="condition")),
    "multiprocessing.Semaphore(0).acquire(timeout=900)": ("acquire", OfProcesses(kind="semaphore")),
    "take_twice(multiprocessing.Lock())": ("Lock.__enter__", OfProcesses(kind="lock", mine=True)),
    "taken_by_the_dead(lock := multiprocessing.Lock())\nlock.acquire()": ("acquire", OfProcesses(kind="lock")),
    "read_after_the_dead(multiprocessing.Queue())": ("Queue.get", OfProcesses(kind="lock")),
}


def seen(pid: int) -> tuple[Awaited, ...]:
    """Return what the threads of a process wait for; nothing yet of one that still starts."""
    with suppress(Unavailable, Gone):
        return tuple(ask_source(AwaitedSource(), rank_of(pid)))
    return ()


def waiting(python: str, statement: str, kind: object) -> Awaited:
    """Return what the main thread of a program waits for, once that is of this kind.

    It is asked again then: the first look may have begun before it waited, and have read its threads and maps before.
    """
    with running(command=[python, "-c", f"{PROGRAM}\n{statement}"], wait=False) as process:

        def found() -> list[Awaited]:
            return [each for each in seen(process.pid) if each.tid == process.pid and each.kind == kind]

        until(found, bool)
        return until(found, bool)[0]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_what_is_awaited_is_told(python: str, case: str) -> None:
    """Which, of what size, for how long at most, and whether anybody is left who could end it."""
    statement, expected = CASES[case]
    awaited = waiting(python, statement, expected["kind"])
    assert {name: getattr(awaited, name) for name in expected} == expected


@pytest.mark.parametrize("statement", SHARED)
@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_what_processes_share_is_told(python: str, statement: str) -> None:
    """As what it serves, who has come, whether its own process has taken it, and which it is in the list of maps."""
    awaited = waiting(python, statement, "semaphore")
    assert awaited.shared is not None and len(awaited.shared.memory.split()) == 2
    assert (awaited.call, awaited.shared.model_copy(update={"memory": "", "lone": False})) == SHARED[statement]


def test_what_no_other_process_has_is_told_so() -> None:
    """Once all others could be asked: one that the kernel holds for a moment cannot."""
    with running(
        command=[sys.executable, "-c", f"{PROGRAM}\nmultiprocessing.Semaphore(0).acquire()"], wait=False
    ) as one:
        until(lambda: [each for each in seen(one.pid) if each.shared is not None and each.shared.lone], bool)


def test_what_another_process_has_mapped_may_be_released() -> None:
    """That one sleeps, and holds nothing else."""
    awaited = waiting(
        sys.executable, "slots = multiprocessing.Semaphore(0)\nos.fork() or stuck()\nslots.acquire()", "semaphore"
    )
    assert awaited.shared is not None and not awaited.shared.lone


@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_coroutines_are_told_from_the_outermost_to_what_is_awaited(python: str) -> None:
    """Through tasks, and through what is gathered."""
    awaited = waiting(python, CASES["a queue in a task of a task"][0], "queue")
    functions = [frame.function for frame in awaited.chain]
    assert functions[0] == "rollout"
    assert functions[-3:] == ["trainer", "take", "get"]
    assert awaited.chain[-2].line == 1 + PROGRAM[: PROGRAM.index("return await")].count("\n")


@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_coroutines_are_told_through_an_asynchronous_generator(python: str) -> None:
    """Which a loop goes through, and which awaits in turn."""
    awaited = waiting(python, "asyncio.run(through_a_generator())", "task")
    assert [frame.function for frame in awaited.chain] == ["through_a_generator", "batches", "for_ever"]


@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_the_thread_whose_end_is_awaited_is_known(python: str) -> None:
    """By its name and its number, and that it lives."""
    with running(
        command=[python, "-c", f"{PROGRAM}\njoin(threading.Thread(target=stuck, name='uploader', daemon=True))"],
        wait=False,
    ) as process:
        threads = until(
            lambda: [each.thread for each in seen(process.pid) if each.kind == "thread"],
            lambda threads: any(thread is not None and thread.alive for thread in threads),
        )
        (thread,) = filter(None, threads)
        assert thread.name == "uploader" and thread.tid in ProcFs().tids(process.pid)


NAMED_SO = """
import ctypes, threading, time
def pose():
    ctypes.CDLL(None).prctl(15, b"pt_tcpstore_uv", 0, 0, 0)
    print("ready", flush=True)
    time.sleep(600)
threading.Thread(target=pose, daemon=True).start()
time.sleep(600)
"""


def test_a_thread_that_has_the_name_alone() -> None:
    """No PyTorch is loaded, and nothing on its stack leads to a store."""
    procfs = ProcFs()
    with (
        running(NAMED_SO) as process,
        open_memory(procfs, procfs.stat(process.pid), Deadline(30)) as memory,
    ):
        names = {procfs.text(process.pid, f"task/{tid}/comm").strip() for tid in procfs.tids(process.pid)}
        assert "pt_tcpstore_uv" in names
        assert list(keys_awaited(procfs, process.pid, memory, read_mappings(procfs, process.pid))) == []
