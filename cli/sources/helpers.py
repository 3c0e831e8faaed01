"""Programs that the agent starts in this process, such as py-spy: none of them may outlive the question."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TypeVar

from agent.errors import Gone
from agent.proc.procfs import ProcFs, Stat
from shared.errors import NotPermitted

_T = TypeVar("_T")

_GRACE_SECONDS = 2.0
"""For the agent's threads to reap what was killed, and to let go whom it had stopped."""

_AGAIN_SECONDS = 0.05

_THREADS = "look-"
"""How the names of the agent's threads begin (agent/deadline.py); a test holds both together."""


class Helpers:
    """The child processes that were started inside of a `with` block; at its end none is left."""

    def __enter__(self) -> "Helpers":
        self._before = _children()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # One that is killed may be followed by the next one that its thread starts, hence both are waited for.
        deadline = time.monotonic() + _GRACE_SECONDS
        while (self.kill() or self._looking()) and time.monotonic() < deadline:
            time.sleep(0.02)

    def _looking(self) -> bool:
        """Is any thread that looks at ranks still at it?"""
        return any(thread.name.startswith(_THREADS) for thread in threading.enumerate())

    def kill(self) -> bool:
        """Kill each with its process group; tell whether there were any."""
        started = [pid for pid, _ in _children() - self._before]
        for pid in started:
            with suppress(ProcessLookupError, PermissionError):
                # The agent gives each a session of its own. One that has not come so far is still of our group.
                own_group = os.getpgid(pid) == pid
                os.killpg(pid, signal.SIGKILL) if own_group else os.kill(pid, signal.SIGKILL)
        return bool(started)

    @contextmanager
    def ended_by_interrupt(self) -> Iterator[None]:
        """On SIGINT cancel the running task, and kill helpers until it has ended: threads wait for them."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        interrupted = False

        def interrupt() -> None:
            nonlocal interrupted
            if not interrupted:
                task.cancel()
            interrupted = True
            self.kill()
            loop.call_later(_AGAIN_SECONDS, interrupt)

        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            yield
        except asyncio.CancelledError:
            if interrupted:
                raise KeyboardInterrupt from None
            raise
        finally:
            loop.remove_signal_handler(signal.SIGINT)


def run_with_helpers(work: Callable[[], Awaitable[_T]]) -> _T:
    """Run to the end, or to Ctrl-C; no program that was started meanwhile outlives either."""

    async def run(helpers: Helpers) -> _T:
        with helpers.ended_by_interrupt():
            return await work()

    with Helpers() as helpers:
        return asyncio.run(run(helpers))


def _children() -> frozenset[tuple[int, int]]:
    """Return the child processes of this one, by process id and start; zombies that wait to be reaped included.

    Where /proc names processes that it does not let us read (hidepid=1), none of those is ours.
    """
    return frozenset((stat.pid, stat.start_ticks) for stat in _stats(ProcFs()) if stat.parent_pid == os.getpid())


def _stats(procfs: ProcFs) -> Iterator[Stat]:
    for pid in procfs.pids():
        with suppress(Gone, NotPermitted):
            yield procfs.stat(pid)
