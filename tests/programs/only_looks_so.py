"""Nothing is wrong: a rank waits as ONLY_LOOKS_SO names, for work that may never come, or that comes slowly.

Of `IDLE` rank 0 serves while nobody asks, and the others wait for what it will broadcast. Of the rest one rank has its
work from elsewhere, some minutes long, while the others wait for its part in every all_reduce.
"""

import asyncio
import multiprocessing
import os
import queue
import signal
import socket
import socketserver
import threading
import time
import xmlrpc.server
from collections.abc import Callable
from multiprocessing.connection import Connection, Listener

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell"]}

SLOW_SECONDS = 40.0
_FORK = multiprocessing.get_context("fork")


async def serve_forever() -> None:
    """Listen on an event loop."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        await server.serve_forever()


def on_asyncio() -> None:
    """Serve from asyncio's loop."""
    asyncio.run(serve_forever())


def on_uvloop() -> None:
    """Serve from uvloop's."""
    import uvloop

    uvloop.run(serve_forever())


def on_trio() -> None:
    """Serve by trio."""
    import trio

    trio.run(trio.serve_tcp, lambda stream: stream.aclose(), 0)


def by_grpc() -> None:
    """Serve by gRPC, with threads that wait."""
    import concurrent.futures

    import grpc

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    server.add_insecure_port("127.0.0.1:0")
    server.start()
    server.wait_for_termination()


def by_zmq() -> None:
    """Reply by ZeroMQ."""
    import zmq

    replying = zmq.Context.instance().socket(zmq.REP)
    replying.bind_to_random_port("tcp://127.0.0.1")
    replying.recv()


def by_uvicorn() -> None:
    """Serve a web application."""
    import uvicorn
    from starlette.applications import Starlette

    uvicorn.run(Starlette(), port=0)


def by_socketserver() -> None:
    """Serve by threads of the standard library."""
    socketserver.ThreadingTCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler).serve_forever()


def by_xmlrpc() -> None:
    """Serve calls by XML."""
    xmlrpc.server.SimpleXMLRPCServer(("127.0.0.1", 0)).serve_forever()


def by_accept() -> None:
    """Accept, and nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.accept()


def by_datagrams() -> None:
    """Receive datagrams of anybody."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.recv(100)


def by_listener() -> None:
    """Accept by multiprocessing."""
    with Listener(("127.0.0.1", 0)) as listener:
        listener.accept()


def from_queue() -> None:
    """Take requests from a queue that a thread fills which listens."""
    requests: queue.Queue[socket.socket] = queue.Queue()
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=lambda: requests.put(server.accept()[0]), daemon=True).start()
    requests.get()


def until_signalled() -> None:
    """Have threads serve, and wait for a signal."""
    threading.Thread(target=by_accept, daemon=True).start()
    signal.sigwait([signal.SIGUSR1])


def compute(seconds: float) -> None:
    """Be at work."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        torch.ones(64, 64) @ torch.ones(64, 64)
        time.sleep(0.05)


def sampled_by_process() -> None:
    """Take a sample from a queue that a process fills which computes."""
    samples: multiprocessing.Queue[int] = _FORK.Queue()
    _FORK.Process(target=lambda: (compute(SLOW_SECONDS), samples.put(1))).start()
    samples.get()


def sampled_by_thread() -> None:
    """The same by a thread."""
    samples: queue.Queue[int] = queue.Queue()
    threading.Thread(target=lambda: (compute(SLOW_SECONDS), samples.put(1))).start()
    samples.get()


def answer_slowly(near: Connection) -> None:
    """Answer each question after a while."""
    while near.recv():
        time.sleep(SLOW_SECONDS)
        near.send("sample")


def rolled_out_elsewhere() -> None:
    """Await a queue that a task fills which asks a slow service."""

    async def ask(samples: "asyncio.Queue[bytes]", port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"next")
        await samples.put(await reader.read(100))
        writer.close()

    async def collect(port: int) -> None:
        samples: asyncio.Queue[bytes] = asyncio.Queue()
        asking = asyncio.create_task(ask(samples, port))
        await samples.get()
        await asking

    with socket.create_server(("127.0.0.1", 0)) as server:
        if os.fork() == 0:
            signal.alarm(rig.LIFETIME_SECONDS)
            client, _ = server.accept()
            client.recv(100)
            time.sleep(SLOW_SECONDS)
            client.sendall(b"sample")
            os._exit(0)
        asyncio.run(collect(server.getsockname()[1]))


def asked_over_pipe() -> None:
    """Ask a process of its own that answers slowly."""
    near, far = _FORK.Pipe()
    child = _FORK.Process(target=answer_slowly, args=(far,), daemon=True)
    child.start()
    near.send("next")
    near.recv()
    child.terminate()


def computes() -> None:
    """Compute."""
    compute(SLOW_SECONDS)


def sleeps() -> None:
    """Sleep, as whoever backs off does."""
    time.sleep(SLOW_SECONDS)


def awaits_timer() -> None:
    """Sleep on an event loop."""
    asyncio.run(asyncio.sleep(SLOW_SECONDS))


IDLE: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        on_asyncio, on_uvloop, on_trio, by_grpc, by_zmq, by_uvicorn, by_socketserver, by_xmlrpc, by_accept,
        by_datagrams, by_listener, from_queue, until_signalled,
    )
}  # fmt: skip
SLOW: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        sampled_by_process, sampled_by_thread, rolled_out_elsewhere, asked_over_pipe, sleeps, awaits_timer, computes,
    )
}  # fmt: skip


def main() -> None:
    """Serve, or train with one slow rank."""
    place, name = rig.start(), os.environ.get("ONLY_LOOKS_SO", "by_accept")
    tokens = torch.ones(16)
    for _ in range(rig.FAULTY_STEP):
        dist.broadcast(tokens, src=0)
    rig.say_ready(f"rank {place.rank}")
    if name in IDLE:
        if place.rank == 0:
            IDLE[name]()
        dist.broadcast(tokens, src=0)
    while name in SLOW:
        if place.is_faulty:
            SLOW[name]()
        dist.all_reduce(tokens)


if __name__ == "__main__":
    main()
