"""Work in a thread of its own: whoever waits is told how it went, and the next one is not kept waiting."""

import asyncio
import threading

import pytest

from collector.concurrency.threads import OwnThread, run_in_thread
from shared.errors import Unreachable


async def test_mistake_is_told_at_once() -> None:
    """And not by a deadline that somebody else may have set."""
    thread = OwnThread("test")
    async with asyncio.timeout(10):
        with pytest.raises(Unreachable, match="ZeroDivisionError"):
            await thread.run(lambda: 1 // 0)
        assert await thread.run(lambda: 1) == 1


async def test_moment_without_threads_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing blocks: once there are threads again, the source is read."""

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    thread = OwnThread("test")
    with monkeypatch.context() as short_of_threads:
        short_of_threads.setattr(threading.Thread, "start", none_left)
        with pytest.raises(Unreachable, match="can't start new thread"):
            await thread.run(lambda: 1)
    assert await thread.run(lambda: 1) == 1


async def test_value_and_mistake_are_handed_on() -> None:
    """As if it had been called here."""
    assert await run_in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(divmod, 7, 0)


async def test_exception_that_no_future_takes_is_handed_on_as_another() -> None:
    """A judgement that ended so would keep its job's run under way for ever."""
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await run_in_thread(next, iter(()))
