"""One rank waits as NOBODY_ENDS_IT names, for what nobody will end; the others wait in the world's all_reduce.

What owes it is the rank itself, what it has started, or a service beside the job: `OWED_BESIDE` names those ways.
"""

import asyncio
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from queue import Queue

import rig

TRUTH = {
    "kinds": ["rank_not_joined"],
    "causes": ["user_code"],
    "where": "twice",
    "busy": [2],
    "bare": {"or_silent": True},
}

FOLDER = Path(os.environ.get("TMPDIR", "/tmp"))
_FORK = multiprocessing.get_context("fork")


def accept_nobody() -> None:
    """Wait for a client that does not come."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


def datagram_of_nobody() -> None:
    """Wait for a datagram, from whomever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.recv(100)


def connect_to_itself() -> None:
    """Connect to a socket of its own that it has not come to accept from, and that has room for no more."""
    server = socket.create_server(("127.0.0.1", 0), backlog=0)
    with socket.create_connection(server.getsockname()):
        socket.create_connection(server.getsockname())


def answer_of_itself() -> None:
    """Wait to hear from the other end of a pair whose both ends it holds."""
    near, _far = socket.socketpair()
    near.recv(1)


def lock_of_the_task_itself() -> None:
    """Take an asyncio lock twice in one task."""

    async def twice() -> None:
        lock = asyncio.Lock()
        async with lock, lock:
            pass

    asyncio.run(twice())


def lock_of_another_task() -> None:
    """Two tasks take two asyncio locks crosswise."""

    async def take(first: asyncio.Lock, second: asyncio.Lock) -> None:
        async with first:
            await asyncio.sleep(0)
            async with second:
                pass

    async def both() -> None:
        one, other = asyncio.Lock(), asyncio.Lock()
        await asyncio.gather(take(one, other), take(other, one))

    asyncio.run(both())


def queue_of_ended_process() -> None:
    """Take from a queue of multiprocessing's that a process should fill which has ended."""
    results: multiprocessing.Queue[int] = _FORK.Queue()
    child = _FORK.Process(target=int)
    child.start()
    child.join()
    results.get()


def semaphore_of_ended_process() -> None:
    """Wait for a semaphore that only a process has shared which has ended."""

    def leave(slots: Semaphore) -> None:
        slots.acquire()

    slots = _FORK.Semaphore(1)
    child = _FORK.Process(target=leave, args=(slots,))
    child.start()
    child.join()
    slots.acquire()


def event_of_dead_thread() -> None:
    """Wait for an event that a thread should set which has died of an exception."""
    loaded = threading.Event()
    thread = threading.Thread(target=lambda: int("no number") and loaded.set(), name="loader")
    thread.start()
    thread.join()
    loaded.wait()


def result_that_is_dropped() -> None:
    """Wait for a future that a callback should fill; the executor has swallowed what it raised."""
    filled: Future[int] = Future()
    pool = ThreadPoolExecutor(1)
    pool.submit(lambda: filled.set_result(int("no number")))
    filled.result()


def room_that_nobody_makes() -> None:
    """Put into a full queue whose consumer has ended."""
    batches: Queue[int] = Queue(maxsize=1)
    thread = threading.Thread(target=batches.get, name="consumer")
    batches.put(1)
    thread.start()
    thread.join()
    batches.put(2)
    batches.put(3)


def lock_in_signal_handler() -> None:
    """A handler takes the lock that the code holds which it interrupts."""
    lock = threading.Lock()
    signal.signal(signal.SIGUSR1, lambda *_: lock.acquire())
    with lock:
        signal.raise_signal(signal.SIGUSR1)


def errors_that_nobody_reads() -> None:
    """Read a child's output to its end, while its errors fill their pipe."""
    command = [sys.executable, "-c", "import sys; sys.stderr.write('x' * (1 << 20)); print('done')"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()


def input_that_stays_open() -> None:
    """Wait for a child that reads its input to the end, and hold that end open."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    child.wait()


def spawned_at_fifo() -> None:
    """Wait for what posix_spawn has started, which opens a FIFO that nobody writes."""
    path = str(FOLDER / f"shards-{os.getpid()}")
    os.mkfifo(path)
    os.waitpid(os.posix_spawnp("cat", ["cat", path], os.environ), 0)


def descriptor_of_stopped_child() -> None:
    """Poll the descriptor of a child that a signal has stopped."""
    child = subprocess.Popen(["sleep", "10000"])
    os.kill(child.pid, signal.SIGSTOP)
    select.select([os.pidfd_open(child.pid)], [], [])


def manager_that_is_stopped() -> None:
    """Ask a manager of multiprocessing's that a signal has stopped."""
    manager = _FORK.Manager()
    shared = manager.dict()
    shared["step"] = 1
    os.kill(manager._process.pid, signal.SIGSTOP)
    shared["step"] = 2


def initializer_of_pool() -> None:
    """Wait for a pool whose processes wait in their initializer."""
    with ProcessPoolExecutor(1, mp_context=_FORK, initializer=rig.fetch_batch) as pool:
        pool.submit(int).result()


def bar_locked_over_fork() -> None:
    """Wait for a child that was forked while a thread held the lock of a progress bar."""
    from tqdm import tqdm

    held = threading.Event()

    def draw() -> None:
        with tqdm.get_lock():
            held.set()
            time.sleep(5)

    threading.Thread(target=draw, name="bar").start()
    held.wait()
    child = _FORK.Process(target=lambda: list(tqdm([1], disable=False)))
    child.start()
    child.join()


def generator_left_open() -> None:
    """Go through an asynchronous generator that awaits what nobody sets."""

    async def batches() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async def read() -> None:
        async for _ in batches():
            pass

    asyncio.run(read())


def group_of_tasks() -> None:
    """Leave a group of tasks one of which awaits a queue that nobody fills."""

    async def read() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Queue[int]().get(), name="reader")

    asyncio.run(read())


def thread_of_a_loop() -> None:
    """Await a thread that waits for a lock."""

    async def read() -> None:
        lock = threading.Lock()
        lock.acquire()
        await asyncio.to_thread(lock.acquire)

    asyncio.run(read())


def child_of_a_loop() -> None:
    """Await a child that a signal has stopped."""

    async def wait() -> None:
        child = await asyncio.create_subprocess_exec("sleep", "10000")
        child.send_signal(signal.SIGSTOP)
        await child.wait()

    asyncio.run(wait())


def stream_of_anyio() -> None:
    """Receive by anyio from a stream into which nobody sends."""
    import anyio

    async def read() -> None:
        send, receive = anyio.create_memory_object_stream[int](1)
        async with send, receive, anyio.create_task_group() as group:
            group.start_soon(receive.receive)

    anyio.run(read)


def channel_of_trio() -> None:
    """Receive by trio from a channel into which nobody sends."""
    import trio

    async def read() -> None:
        send, receive = trio.open_memory_channel[int](1)
        async with send, receive:
            await receive.receive()

    trio.run(read)


def future_on_uvloop() -> None:
    """Await on uvloop a future that nobody sets."""
    import uvloop

    async def read() -> None:
        await asyncio.get_running_loop().create_future()

    uvloop.run(read())


SERVICES = {
    "keys": """
import os, signal, socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], os.getpid(), flush=True)
client, _ = server.accept()
client.recv(100); client.sendall(b"+OK\\r\\n")
client.recv(100); os.kill(os.getpid(), signal.SIGSTOP)
""",
    "deaf": """
import os, socket, time
server = socket.create_server(("127.0.0.1", 0), backlog=0)
print(server.getsockname()[1], os.getpid(), flush=True)
time.sleep(86400)
""",
    "grpc": """
import os, time, grpc, concurrent.futures
def score(request, context):
    time.sleep(86400)
handler = grpc.method_handlers_generic_handler("Reward", {"Score": grpc.unary_unary_rpc_method_handler(score)})
server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
server.add_generic_rpc_handlers((handler,))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, os.getpid(), flush=True)
server.wait_for_termination()
""",
    "zmq": """
import os, zmq
socket = zmq.Context().socket(zmq.REP)
print(socket.bind_to_random_port("tcp://127.0.0.1"), os.getpid(), flush=True)
socket.recv()
zmq.Context.instance().socket(zmq.PULL).recv()
""",
}


def service(which: str) -> int:
    """Start a service that is no part of the job, and return its port."""
    start = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
    lean = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "UNHANG_TEST_JOB")}
    code = f"import signal; signal.alarm(900)\n{SERVICES[which]}"
    with subprocess.Popen([sys.executable, "-c", start, code], env=lean, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        return int(started.stdout.readline().split()[0])


def store_that_is_stopped() -> None:
    """Ask a key-value server that a signal has stopped, after it has answered once."""
    with socket.create_connection(("127.0.0.1", service("keys"))) as connection:
        for _ in range(2):
            connection.sendall(b"PING\r\n")
            connection.recv(100)


def backlog_of_deaf_service() -> None:
    """Connect to a service that accepts nothing, and whose backlog is full."""
    port = service("deaf")
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(1)]
    held.append(socket.create_connection(("127.0.0.1", port)))


def stub_of_grpc() -> None:
    """Call a service by gRPC whose handler sleeps."""
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{service('grpc')}") as channel:
        channel.unary_unary("/Reward/Score")(b"text")


def call_of_grpc_aio() -> None:
    """The same on an event loop."""
    import grpc

    async def call() -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{service('grpc')}") as channel:
            await channel.unary_unary("/Reward/Score")(b"text")

    asyncio.run(call())


def reply_out_of_step() -> None:
    """Ask by ZeroMQ what takes the request, and receives in the place of its reply."""
    import zmq

    asking = zmq.Context.instance().socket(zmq.REQ)
    asking.connect(f"tcp://127.0.0.1:{service('zmq')}")
    asking.send(b"score this")
    asking.recv()


OWED_BESIDE = (store_that_is_stopped, backlog_of_deaf_service, stub_of_grpc, call_of_grpc_aio, reply_out_of_step)
WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        *OWED_BESIDE, accept_nobody, datagram_of_nobody, connect_to_itself, answer_of_itself, lock_of_the_task_itself,
        lock_of_another_task, queue_of_ended_process, semaphore_of_ended_process, event_of_dead_thread,
        result_that_is_dropped, room_that_nobody_makes, lock_in_signal_handler, errors_that_nobody_reads,
        input_that_stays_open, spawned_at_fifo, descriptor_of_stopped_child, manager_that_is_stopped,
        initializer_of_pool, bar_locked_over_fork, generator_left_open, group_of_tasks, thread_of_a_loop,
        child_of_a_loop, stream_of_anyio, channel_of_trio, future_on_uvloop,
    )
}  # fmt: skip

if __name__ == "__main__":
    rig.train(rig.start(), WAYS[os.environ.get("NOBODY_ENDS_IT", "lock_of_the_task_itself")])
