"""One rank waits for what WAITS_OUTSIDE names, outside PyTorch's groups; the others wait in the world's all_reduce.

Each way is a hang that somebody owes; those of `LOOK_ALIKES` only look so, and go on.
"""

import atexit
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import rig

TRUTH = {
    "kinds": ["rank_not_joined"],
    "causes": ["other_process"],
    "culprits": [],
    "victims": "0-3",
    "or_silent": True,
    "busy": [2],
}

FOLDER = Path(os.environ.get("TMPDIR", "/tmp"))
FREEZER = Path("/sys/fs/cgroup/freezer")

SERVICE = """
import os, signal, socket, sys, time
signal.alarm(900)
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
print(os.getpid(), flush=True)
client, _ = server.accept()
def reward_model(request):
    time.sleep(86_400)
def drip():
    while True:
        client.sendall(b"x" * 64)
        time.sleep(0.5)
def answer_late():
    client.recv(100)
    time.sleep(20)
    client.sendall(b"done")
    time.sleep(900)
def read_nothing():
    signal.sigwait([signal.SIGUSR1])
def deadlock():
    import threading
    lock = threading.Lock()
    lock.acquire()
    client.recv(100)
    lock.acquire()
{"hangs": lambda: reward_model(client.recv(100)), "drips": drip, "answers_late": answer_late,
 "reads_nothing": read_nothing, "deadlocks": deadlock}[sys.argv[1]]()
"""


def service(way: str) -> tuple[int, int]:
    """Start a service that is no part of the job, as a daemon, and return its port and process id."""
    lean = {name: value for name, value in os.environ.items() if name in ("PATH", "UNHANG_TEST_JOB")}
    start = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], start_new_session=True)"
    arguments = [sys.executable, "-c", start, SERVICE, way]
    with subprocess.Popen(arguments, env=lean, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        return int(started.stdout.readline()), int(started.stdout.readline())


def ask(way: str, request: bytes = b"score this") -> bytes:
    """Ask that service and wait for its answer."""
    port, _ = service(way)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        return connection.recv(100)


def hung_service() -> None:
    """It has read the question, and sleeps."""
    ask("hangs")


def deadlocked_service() -> None:
    """It has read the question, and waits for a lock of its own."""
    ask("deadlocks")


def deaf_service() -> None:
    """It does not read at all: the question lies in its socket."""
    ask("reads_nothing")


def stopped_service() -> None:
    """A signal has stopped it."""
    port, pid = service("hangs")
    os.kill(pid, signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"score this")
        connection.recv(100)


def service_that_takes_nothing() -> None:
    """The rank sends more than both sockets hold, and nobody reads."""
    port, _ = service("reads_nothing")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"x" * (64 << 20))


def dripping_service() -> None:
    """It sends, slowly."""
    port, _ = service("drips")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while connection.recv(100):
            pass


def long_poll() -> None:
    """It answers after twenty seconds."""
    ask("answers_late")


def select_until_answer() -> None:
    """The same, in select(2)."""
    port, _ = service("answers_late")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"score this")
        select.select([connection], [], [])


def stopped_child() -> None:
    """Wait for a child that a signal has stopped."""
    child = subprocess.Popen(["sleep", "10000"])
    time.sleep(0.1)
    os.kill(child.pid, signal.SIGSTOP)
    child.wait()


def frozen_child() -> None:
    """Wait for a child whose cgroup is frozen; a daemon that nobody ends thaws it once this process is gone."""
    child = subprocess.Popen(["sleep", "10000"])
    group = FREEZER / f"unhang-{os.urandom(4).hex()}"
    group.mkdir()
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, False)
    thaw = f"cat; cd {group}; echo THAWED > freezer.state; kill -9 $(cat cgroup.procs)"
    thaw += f"; until rmdir {group}; do sleep 0.1; done"
    subprocess.run(["setsid", "-f", "sh", "-c", thaw], stdin=ours, env={"PATH": os.environ["PATH"]}, check=True)
    os.close(ours)
    (group / "cgroup.procs").write_text(str(child.pid))
    (group / "freezer.state").write_text("FROZEN")
    child.wait()


def child_at_fifo() -> None:
    """Wait for a child that waits for somebody to write into a FIFO."""
    subprocess.run(["cat", _fifo()], check=True)


def grandchild_keeps_pipe() -> None:
    """Read a child's output to its end: the child is dead, and a daemon that it has left behind holds the pipe."""
    subprocess.run(["sh", "-c", "sleep 10000 & echo started"], capture_output=True, check=True)


def popen_circle() -> None:
    """Wait for a child before its output is read: it has more to say than the pipe holds."""
    child = subprocess.Popen(["seq", "1000000"], stdout=subprocess.PIPE)
    child.wait()


def both_pipes() -> None:
    """Write all of a child's input before its output is read."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(b"x" * (1 << 20))


def defunct_child() -> None:
    """Wait for word from a child that is dead: the rank itself holds the end into which it should have written."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os._exit(1)
    os.read(ours, 1)
    os.close(theirs)


def prompt() -> None:
    """Ask whoever sits at the terminal."""
    main, terminal = pty.openpty()
    os.dup2(terminal, 0)
    os.set_inheritable(main, True)
    sys.stdin = os.fdopen(0, closefd=False)
    input("overwrite the checkpoint? [y/n] ")


def fifo_of_nobody() -> None:
    """Open a FIFO that nobody opens."""
    Path(_fifo()).read_bytes()


def _fifo() -> str:
    path = FOLDER / f"feed-{os.getpid()}"
    os.mkfifo(path)
    return str(path)


def thread_goes_on() -> None:
    """Leave with a thread behind that is no daemon: the process cannot exit."""
    threading.Thread(target=rig.fetch_batch, name="uploader").start()
    sys.exit()


def exit_handler() -> None:
    """Leave through a handler that waits for ever."""
    atexit.register(flush_metrics)
    sys.exit()


def flush_metrics() -> None:
    """Stand for what an exit handler waits for."""
    threading.Event().wait()


def executed_text() -> None:
    """Run what a configuration says, which has no file."""
    exec("import time\ndef wait_for_quota():\n    time.sleep(1e9)\nwait_for_quota()", {})  # noqa: S102 - this is what it is about


class Connection:
    """A connection that says goodbye when it is dropped."""

    def __init__(self) -> None:
        """Connect."""
        self.near, self.far = socket.socketpair()

    def __del__(self) -> None:
        """Wait for the other side's goodbye."""
        self.near.recv(1)


def destructor() -> None:
    """Drop what waits for ever in its destructor."""
    connection = Connection()
    del connection


def child_works() -> None:
    """Wait for a child that computes."""
    subprocess.run([sys.executable, "-c", "while True: pass"], check=True)


def back_off() -> None:
    """Ask again after 1, 2, 4 ... 32 s, as clients of busy services do."""
    for attempt in range(7):
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=1)
        except OSError:
            time.sleep(2**attempt)


LOOK_ALIKES: dict[str, Callable[[], None]] = {
    way.__name__: way for way in (dripping_service, long_poll, select_until_answer, child_works, back_off)
}
WAYS: dict[str, Callable[[], None]] = LOOK_ALIKES | {
    way.__name__: way
    for way in (
        hung_service, deadlocked_service, deaf_service, stopped_service, service_that_takes_nothing,
        stopped_child, frozen_child, child_at_fifo, grandchild_keeps_pipe, popen_circle, both_pipes, defunct_child,
        prompt, fifo_of_nobody, executed_text, thread_goes_on, exit_handler, destructor,
    )
}  # fmt: skip


def main() -> None:
    """Train; at the faulty step one rank does something else first."""
    rig.train(rig.start(), WAYS[os.environ.get("WAITS_OUTSIDE", "hung_service")])


if __name__ == "__main__":
    main()
