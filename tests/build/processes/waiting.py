"""Waiting for what must come, for as long as a machine that is slow, or stops for seconds, may need."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from collector.gather.fanout.values import RoundOutcome

T = TypeVar("T")

MOST_SECONDS = 60.0


async def until(holds: Callable[[], object]) -> None:
    """Return once it holds; meanwhile the event loop runs. Fails where it never does."""
    end = time.monotonic() + MOST_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        await asyncio.sleep(0.01)


async def undisturbed(ask: Callable[[], Awaitable[RoundOutcome[T]]]) -> RoundOutcome[T]:
    """Ask again where the collector was too busy to hear somebody: a machine that stopped tells nothing of agents."""
    for _ in range(5):
        outcome = await ask()
        if not any("too busy" in each.missing.detail for each in outcome.silent):
            break
    return outcome
