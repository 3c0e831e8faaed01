"""The store as coroutines ask it: in threads that hold up neither whoever asks nor the end of the collector."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from collector.keep import async_store as desks
from collector.keep.async_store import AsyncStore
from collector.keep.database import StoreTrouble
from collector.keep.store import Store


@pytest.fixture
def async_store(tmp_path: Path) -> Iterator[AsyncStore]:
    """An asynchronous store."""
    store = Store(tmp_path / "store.sqlite3")
    yield AsyncStore(store)
    store.close()


async def test_what_is_being_written_at_the_end_is_written(async_store: AsyncStore) -> None:
    """Also where whoever wanted it written has been told to end."""
    written: list[bool] = []

    def write() -> None:
        time.sleep(0.3)
        written.append(True)

    writing = asyncio.create_task(async_store.keep(write))
    await asyncio.sleep(0.1)
    writing.cancel()
    await async_store.close()
    assert written == [True]
    with pytest.raises(StoreTrouble, match="the collector ends"):
        await async_store.ask(list)


async def test_call_that_does_not_come_back_holds_up_no_end(
    async_store: AsyncStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left behind, in a thread that does not keep the process."""
    monkeypatch.setattr(desks, "END_SECONDS", 0.2)
    gate, before = threading.Event(), set(threading.enumerate())
    asking = asyncio.create_task(async_store.ask(gate.wait, 60.0))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(10):
        await async_store.close()
    assert [thread.daemon for thread in set(threading.enumerate()) - before] == [True]
    gate.set()
    with suppress(asyncio.CancelledError):
        await asking


async def test_calls_that_are_given_up_leave_no_threads_taken(async_store: AsyncStore) -> None:
    """Cancelled in a hundred places, and then as many are answered at once as before."""
    for step in range(100):
        calls = [asyncio.create_task(async_store.ask(time.sleep, 0.002)) for _ in range(24)]
        await asyncio.sleep(0.0001 * step)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    together = threading.Barrier(desks._THREADS)
    await asyncio.gather(*(async_store.ask(together.wait, 10.0) for _ in range(desks._THREADS)))
