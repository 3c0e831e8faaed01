"""Waiting for what must come, for as long as a machine that is slow, or stops for seconds, may need."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeVar

import httpx

from collector.gather.fanout.values import RoundOutcome

T = TypeVar("T")

MOST_SECONDS = 60.0


async def until(holds: Callable[[], object]) -> None:
    """Return once it holds; meanwhile the event loop runs. Fails where it never does."""
    end = time.monotonic() + MOST_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        await asyncio.sleep(0.01)


class Process(Protocol):
    """Whose status can be asked for: None while it runs."""

    def poll(self) -> int | None: ...


def until_it_answers(url: str, process: Process | None = None) -> None:
    """Return once a service without TLS answers. Fails where it never does, or its process has ended."""
    end = time.monotonic() + MOST_SECONDS
    # One client, and no certificates: to load all that are trusted takes more than most answers do.
    with httpx.Client(verify=False, trust_env=False, timeout=2.0) as client:
        while process is None or process.poll() is None:
            with suppress(httpx.TransportError):
                client.get(url)
                return
            assert time.monotonic() < end, "it never came to answer"
            time.sleep(0.02)
    raise AssertionError(f"it ended with status {process.poll()}")


async def undisturbed(ask: Callable[[], Awaitable[RoundOutcome[T]]]) -> RoundOutcome[T]:
    """Ask again where the collector was too busy to hear somebody: a machine that stopped tells nothing of agents."""
    for _ in range(5):
        outcome = await ask()
        if not any("too busy" in each.missing.detail for each in outcome.silent):
            break
    return outcome
