"""One rank does what WAITED_FOR names while the others wait in the world's all_reduce: some of it ends, some never."""

import concurrent.futures
import gzip
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import NoReturn

import rig

TRUTH = {"verdict": "slow", "kinds": ["held_up"], "causes": ["user_code"], "busy": [2]}


def back_off() -> None:
    """Ask again after 1, 2, 4 ... 32 s, as clients of busy services do."""
    for attempt in range(7):
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=1)
        except OSError:
            time.sleep(2**attempt)


def tokenize() -> None:
    """Split text into words on one core, for minutes."""
    words: dict[str, int] = {}
    for number in range(1_000_000_000):
        for word in f"line {number % 1000} of a corpus with {number % 77} words".split():
            words[word] = words.get(word, 0) + 1


def write_file() -> None:
    """Write 8 MB/s into one file, which is sync'd now and then."""
    with tempfile.NamedTemporaryFile(dir=os.environ.get("TMPDIR", "/tmp"), prefix="shard-") as file:
        while True:
            file.write(b"x" * 800_000)
            file.flush()
            time.sleep(0.1)
            if file.tell() > 200_000_000:
                file.truncate(0)
                file.seek(0)


def download() -> None:
    """Read a file of a gigabyte from a slow server."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        if os.fork() == 0:
            serve_slowly(listening)
        with urllib.request.urlopen(f"http://127.0.0.1:{listening.getsockname()[1]}/weights", timeout=60) as reply:
            while reply.read(1 << 20):
                pass


def serve_slowly(listening: socket.socket) -> NoReturn:
    """Send 20 kB/s to the first who asks."""
    signal.alarm(rig.LIFETIME_SECONDS)
    client, _ = listening.accept()
    client.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
    while True:
        client.sendall(b"x" * 10_000)
        time.sleep(0.5)


def compress_in_child() -> None:
    """Have gzip compress what does not end."""
    with open("/dev/urandom", "rb") as noise:
        subprocess.run(["gzip", "-9"], stdin=noise, stdout=subprocess.DEVNULL, check=True)


def unpickle() -> None:
    """Load a large pickle, again and again."""
    data = pickle.dumps([{"number": number, "text": f"row {number}"} for number in range(300_000)])
    while True:
        pickle.loads(data)


def spin() -> None:
    """Loop on one line that calls nothing."""
    while True:
        pass


def sleep_a_day() -> None:
    """Sleep for a day."""
    time.sleep(86_400)


def wait_for_stopped_child() -> None:
    """Wait for a child that a signal has stopped."""
    child = subprocess.Popen(["sleep", "10000"])
    time.sleep(0.1)
    os.kill(child.pid, signal.SIGSTOP)
    child.wait()


def receive_nothing() -> None:
    """Read from a peer that never sends."""
    with socket.socket() as listening, socket.socket() as near:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        near.connect(listening.getsockname())
        far, _ = listening.accept()
        with far:
            near.recv(100)


def poll_file() -> None:
    """Ask once a second whether a file has come that never comes."""
    while not os.path.exists("/nonexistent/flag"):
        time.sleep(1)


def wait_on_event() -> None:
    """Wait without end for an event that nobody sets."""
    threading.Event().wait()


def read_slow_pipe() -> None:
    """Read what a child writes at 50 kB/s."""
    script = "import sys, time\nwhile True: sys.stdout.write('x' * 5000); sys.stdout.flush(); time.sleep(0.1)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        while child.stdout.read(1000):
            pass


def compress_here() -> None:
    """Compress in C, in this process."""
    data = os.urandom(1 << 26)
    while True:
        gzip.compress(data)


def unpack_shell() -> None:
    """Have a shell start one short-lived compressor after the other."""
    subprocess.run(["sh", "-c", "while :; do head -c 3000000 /dev/urandom | gzip -9 > /dev/null; done"], check=False)


def map_in_pool() -> None:
    """Have a pool of processes do it, as `datasets` with `num_proc` does."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(count, [1 << 33] * 2)


def count(most: int) -> int:
    """Count."""
    return sum(1 for _ in range(most))


def tokenize_in_thread() -> None:
    """Have a thread do it, and wait for that."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(tokenize).result()


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        back_off, tokenize, write_file, download, compress_in_child, unpickle, spin, sleep_a_day,
        wait_for_stopped_child, receive_nothing, poll_file, wait_on_event, read_slow_pipe, compress_here,
        unpack_shell, map_in_pool, tokenize_in_thread,
    )
}  # fmt: skip


def main() -> None:
    """Train; at the faulty step one rank does something else first."""
    place = rig.start()
    rig.train(place, WAYS[os.environ.get("WAITED_FOR", "tokenize")])


if __name__ == "__main__":
    main()
