"""An engine as vLLM and SGLang build theirs: an API process, an engine core below it, and workers below that.

The API process answers `/health` by itself, and hands each request to the core, whose main thread takes it from a queue
that another thread fills. The core has its workers compute together, and waits for what they send back.
A request names what happens to it: `/generate/FAULT`; any other is answered after `STEPS` steps.
"""

import asyncio
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection

import torch
import torch.distributed as dist

LIFETIME_SECONDS = int(os.environ.get("UNHANG_TEST_LIFETIME", "900"))
STEPS = 3
SLOW_SECONDS = 45.0
NEVER = 1e9
PORT_OF_STORE = int(os.environ.get("MASTER_PORT", "29555"))


def compute(seconds: float) -> None:
    """Be at work."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        torch.ones(64, 64) @ torch.ones(64, 64)


def spin() -> None:
    """Loop without an end."""
    n = 1
    while n:
        n += 1


def take_lock_twice() -> None:
    """Wait for a lock that this very thread holds."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def execute(what: str, rank: int, tokens: torch.Tensor) -> None:
    """Do one step of the model on one worker, the second of which may go astray."""
    last = rank == int(os.environ["WORKERS"]) - 1
    if what == "lock_in_worker" and last:
        take_lock_twice()
    if what == "loop_in_worker" and last:
        spin()
    if what == "slow":
        compute(SLOW_SECONDS / STEPS)
    if dist.get_world_size() > 1:
        dist.all_reduce(tokens)


def worker(rank: int, size: int, orders: "multiprocessing.Queue[str]", answers: Connection) -> None:
    """Be one tensor parallel worker."""
    signal.alarm(LIFETIME_SECONDS)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{PORT_OF_STORE}", rank=rank, world_size=size)
    tokens = torch.ones(16)
    dist.all_reduce(tokens)
    answers.send("ready")
    while True:
        execute(orders.get(), rank, tokens)
        answers.send("done")


def schedule(what: str) -> None:
    """Choose what runs next."""
    if what == "lock_in_scheduler":
        take_lock_twice()


def core(requests: Connection, size: int) -> None:
    """Be the engine core: one request after the other, several steps each."""
    signal.alarm(LIFETIME_SECONDS)
    os.environ["WORKERS"] = str(size)
    spawn = multiprocessing.get_context("fork")
    orders = [spawn.Queue() for _ in range(size)]
    pipes = [spawn.Pipe() for _ in range(size)]
    for rank in range(size):
        spawn.Process(target=worker, args=(rank, size, orders[rank], pipes[rank][1]), daemon=True).start()
    for answers, _ in pipes:
        answers.recv()
    requests.send("ready")
    waiting: queue.Queue[str] = queue.Queue()
    threading.Thread(target=take_in, args=(requests, waiting), daemon=True).start()
    while True:
        what = waiting.get()
        for _ in range(STEPS):
            schedule(what)
            for each in orders:
                each.put(what)
            for answers, _ in pipes:
                answers.recv()
        requests.send(what)


def take_in(requests: Connection, waiting: "queue.Queue[str]") -> None:
    """Fill the queue."""
    while True:
        waiting.put(requests.recv())


class Api:
    """The API process."""

    def __init__(self, engine: Connection) -> None:
        self.engine = engine
        self.waiting: list[asyncio.Future[None]] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, `GET PATH HTTP/1.1`, and close."""
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        what = path.rpartition("/")[2]
        if path == "/poll":
            await asyncio.sleep(NEVER)
        if what == "lock_in_server":
            take_lock_twice()
        if path.startswith("/generate"):
            done = asyncio.get_running_loop().create_future()
            self.waiting.append(done)
            self.engine.send(what)
            await done
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    def take_answer(self) -> None:
        """The core has done the oldest request."""
        self.engine.recv()
        self.waiting.pop(0).set_result(None)


async def serve(port: int, size: int) -> None:
    """Be the API process."""
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    multiprocessing.get_context("fork").Process(target=core, args=(theirs, size)).start()
    assert ours.recv() == "ready"
    api = Api(ours)
    asyncio.get_running_loop().add_reader(ours.fileno(), api.take_answer)
    server = await asyncio.start_server(api.answer, "127.0.0.1", port)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    signal.alarm(LIFETIME_SECONDS)
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
