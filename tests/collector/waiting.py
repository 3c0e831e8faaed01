"""Waiting for what must come, for as long as a machine that is slow, or stops for seconds, may need."""

import asyncio
import time
from collections.abc import Callable

MOST_SECONDS = 60.0


async def until(holds: Callable[[], object]) -> None:
    """Return once it holds; meanwhile the event loop runs. Fails where it never does."""
    end = time.monotonic() + MOST_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        await asyncio.sleep(0.01)
