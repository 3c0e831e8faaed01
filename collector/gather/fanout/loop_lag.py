"""How far the event loop is behind: while it does not run, no answer is read, and no agent is to blame for that.

A periodic timer measures it: for as long as the timer is late, the loop has not run. Time limits leave that time out,
and what has arrived by then is read before a limit expires.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

_EVERY_SECONDS = 0.05
_SLACK_SECONDS = 0.01
"""Every timer is late by a little."""

_TO_READ_SECONDS = 0.25
"""For what had arrived when the loop ran again; granted once, even past the deadline."""


class LoopLag:
    """The lag of one event loop, measured while requests are in flight."""

    def __init__(self) -> None:
        self._waiting = 0
        self._missed_seconds = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def behind_seconds(self) -> float:
        """For how long the loop has not run, of all the time in which that was measured."""
        if self._timer is None:
            return self._missed_seconds
        return self._missed_seconds + _lateness(asyncio.get_running_loop().time() - self._due)

    def stopwatch(self) -> Callable[[], float]:
        """Return a function that gives for how many seconds the loop has run since now."""
        began, behind_before = time.monotonic(), self.behind_seconds
        return lambda: max(0.0, time.monotonic() - began - (self.behind_seconds - behind_before))

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the lag inside the block."""
        self._waiting += 1
        if self._timer is None:
            self._expect_tick()
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0 and self._timer is not None:
                self._missed_seconds = self.behind_seconds
                self._timer.cancel()
                self._timer = None

    def _expect_tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + _EVERY_SECONDS
        self._timer = loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._missed_seconds = self.behind_seconds
        self._expect_tick()

    @asynccontextmanager
    async def limit(self, seconds: float, *, due: float) -> AsyncIterator[asyncio.Timeout]:
        """End what is inside after `seconds` in which the loop ran, or at `due` by its clock. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        ends, behind_before, was_late = loop.time() + seconds, self.behind_seconds, False
        timer: asyncio.TimerHandle
        async with asyncio.timeout(None) as limit:

            def check(planned: float) -> None:
                nonlocal timer, was_late
                now = loop.time()
                at = min(ends + self.behind_seconds - behind_before, due)
                if not was_late and _lateness(now - planned) > 0:
                    was_late, at = True, max(at, now + _TO_READ_SECONDS)
                if at > now:
                    timer = loop.call_at(at, check, at)
                elif not limit.expired():
                    limit.reschedule(now)

            timer = loop.call_at(min(ends, due), check, min(ends, due))
            try:
                yield limit
            finally:
                timer.cancel()


def _lateness(seconds: float) -> float:
    return seconds if seconds > _SLACK_SECONDS else 0.0
