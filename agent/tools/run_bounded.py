"""Runs a helper program such as py-spy: in a process group of its own, bounded in time and output."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from agent.deadline import Deadline, awaits_page
from agent.errors import Unavailable, no_page
from shared.missing import Reason

LARGEST_OUTPUT = 16 * 1024 * 1024
"""py-spy writes 6 MB of 300 threads of 60 frames."""
_LARGEST_COMPLAINT = 65_536
ENDING_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""What others send to end a program: systemd sends SIGTERM to all in a unit's control group when it stops the unit."""
_DIE_FIRST = "1000"
"""oom_score_adj: where memory runs out, for the node or in our control group, a helper goes and not the agent."""
_AGAIN_SECONDS = 0.2
_GRACE_SECONDS = 2.0


class Output(NamedTuple):
    """What a program wrote. `status`: None when it was killed at its deadline. `awaits_page`: where, in the kernel."""

    stdout: bytes
    stderr: bytes
    status: int | None
    awaits_page: str = ""

    def require_end(self, program: str, deadline: Deadline) -> None:
        """Raise Unavailable where it was killed at its deadline."""
        if self.awaits_page:
            raise no_page(self.awaits_page)
        if self.status is None:
            raise Unavailable(Reason.TIMED_OUT, f"{program} had not finished after {deadline.seconds:.1f} s")


def find_program(name: str, configured: Path | None = None) -> Path | None:
    """Return where a helper program lies: as configured, beside our interpreter, or on the path."""
    if configured is not None:
        return configured if os.access(configured, os.X_OK) else None
    beside = Path(sys.executable).with_name(name)
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(name)
    return None if found is None else Path(found)


def run_bounded(
    command: Sequence[str],
    deadline: Deadline,
    *,
    pass_fds: Sequence[int] = (),
    keep: Sequence[str] = (),
    end_with: signal.Signals | None = None,
    block: Collection[signal.Signals] = (),
    spare: Callable[[], bool] | None = None,
) -> Output:
    """Run a program until it ends or the deadline is over; then its whole process group is killed.

    With `end_with` it gets that signal first, and two seconds to put things in order; what it wrote is kept.

    `block` are signals that it does not receive: they stay blocked in it, unless it unblocks them itself.

    While `spare` says so it is not killed but left to a thread, which ends it once it may.

    `pass_fds` are open in it under the same numbers; `keep` names variables of our environment that it is given.
    """
    with _blocked(block):
        process = _start(command, pass_fds, keep)
    assert process.stdout is not None and process.stderr is not None
    readers = (_Reader(process.stdout, LARGEST_OUTPUT), _Reader(process.stderr, _LARGEST_COMPLAINT))
    end = _end
    try:
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(deadline.left())
        status = process.wait(max(deadline.left(), 0.001))
        return Output(readers[0].data, readers[1].data, status)
    except subprocess.TimeoutExpired:
        if spare is not None and spare():
            end = partial(_end_later, spare=spare)
        if end_with is None:
            return Output(b"", b"", None, awaits_page(Path(f"/proc/{process.pid}")))
        _end_with(process, end_with)
        for reader in readers:
            reader.join(_GRACE_SECONDS)
        return Output(readers[0].data, readers[1].data, None)
    finally:
        end(process)
        for reader in readers:
            reader.close_unused()


def _start(command: Sequence[str], pass_fds: Sequence[int], keep: Sequence[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=pass_fds,
        env={
            **{name: os.environ[name] for name in keep if name in os.environ},
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C.UTF-8",
        },
    )
    with suppress(OSError):  # it has ended, or is not ours to write
        Path(f"/proc/{process.pid}/oom_score_adj").write_text(_DIE_FIRST)
    return process


@contextmanager
def _blocked(signals: Collection[signal.Signals]) -> Iterator[None]:
    """Block signals in this thread: a program keeps the mask of the thread that starts it (execve(2))."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_later(process: subprocess.Popen[bytes], spare: Callable[[], bool]) -> None:
    """Leave a program alone for as long as it is spared, in a thread of its own, then end it."""

    def wait() -> None:
        while process.poll() is None and spare():
            time.sleep(_AGAIN_SECONDS)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
        _end(process)

    threading.Thread(target=wait, name="spared-helper", daemon=True).start()


def _end_with(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class _Reader(threading.Thread):
    """Reads one pipe to its end, keeping the first so many bytes; the rest is read and thrown away.

    It alone closes the pipe: a descriptor closed under a thread that reads it may be another file's by then.
    """

    def __init__(self, pipe: IO[bytes], most: int) -> None:
        super().__init__(name="pipe-reader", daemon=True)
        self._pipe, self._most, self.data = pipe, most, b""

    def run(self) -> None:
        pieces, size = [], 0
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), 65_536):
                if size <= self._most:
                    pieces.append(piece)
                    size += len(piece)
        self.data = b"".join(pieces)

    def close_unused(self) -> None:
        """Close the pipe if there was no thread to read it."""
        if self.ident is None:
            self._pipe.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group and reap it."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
