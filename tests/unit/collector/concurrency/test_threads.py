"""Work in a thread of its own: whoever waits is told how it went, and the next one is not kept from beginning."""

import asyncio
import threading

import pytest

from collector.concurrency.threads import OwnThread
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
