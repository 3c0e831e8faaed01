"""One rank does what WAITED_FOR names while the others wait in the world's all_reduce: some of it ends, some never."""

import os
import signal
import socket
import subprocess
import tempfile
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


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        back_off, tokenize, write_file, download, compress_in_child,
        sleep_a_day, wait_for_stopped_child, receive_nothing,
    )
}  # fmt: skip


if __name__ == "__main__":
    rig.train(rig.start(), WAYS[os.environ.get("WAITED_FOR", "tokenize")])
