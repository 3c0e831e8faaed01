"""What is run aside gives its outcome to whoever waits, whatever it is."""

import asyncio

import pytest

from collector.concurrency.threads import run_in_thread


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
