"""An agent in this process, for as long as a command takes. Asked directly it needs neither HTTP nor its libraries."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from agent.agent import Agent
from agent.deadline import Deadline
from agent.settings import AgentSettings
from cli.settings import read_agent_settings
from shared.missing import Reason

_T = TypeVar("_T")

_BEAT_SECONDS = 1.0
"""Of all ranks here: a few system calls each."""
_SEARCH_SECONDS = 15.0


def local_settings() -> AgentSettings:
    """Return the settings of an agent that only this process asks."""
    return read_agent_settings().model_copy(update={"token_file": None, "debuggers": True})


async def search_through(agent: Agent) -> None:
    """Find the ranks: nobody has searched before, and on a busy machine one search may come to none of them."""
    until = Deadline(_SEARCH_SECONDS)
    while until.left() > 0 and any(each.reason is Reason.TIMED_OUT for each in (await in_thread(agent.ranks)).missing):
        pass


@asynccontextmanager
async def beating(agent: Agent) -> AsyncIterator[None]:
    """Have the agent notice what moves between two looks, as long as the block lasts."""
    watching = asyncio.create_task(_keep_beat(agent))
    try:
        yield
    finally:
        watching.cancel()


async def _keep_beat(agent: Agent) -> None:
    while True:
        await asyncio.sleep(_BEAT_SECONDS)
        await asyncio.to_thread(agent.node.beat, Deadline(_BEAT_SECONDS))


async def in_thread(look: Callable[[], _T]) -> _T:
    """Run in a thread what looks at ranks.

    Whoever is cancelled meanwhile waits for its end: it needs its helpers killed for that, one after the other.
    """
    running = asyncio.ensure_future(asyncio.to_thread(look))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.gather(running, return_exceptions=True)
        raise
