"""A limited number of agents are asked at a time; those that hang give their turns to others that were never asked.

Otherwise as many hanging agents as there are turns would block all others. Slow is not hung: if all agents are slow,
taking turns away would only waste what they have done. So a turn is taken away

1. only while an agent waits that has not been asked at all,
2. only if it was overtaken by many that began later, or if no turn has ended for a while, and
3. only so far that half of the turns are left to those that hold them.

An agent that gave way is asked again after those that were never asked.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

LEAST_SECONDS = 0.25
"""No turn is taken away sooner: connections across a site take milliseconds."""

_EVERY_SECONDS = 0.1
"""How often turns are checked."""


@dataclass(eq=False)
class Turn:
    """The right to have one connection open."""

    began: float
    due: float
    """When an answer is due, by the event loop's clock."""
    ended_before: int
    """How many turns had ended by themselves when it began."""
    may_give_way: bool
    limit: asyncio.Timeout | None = None
    """What ends the work that is done in this turn."""
    gave_way: bool = False


class Slots:
    """A number of turns, of one event loop."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._free = number
        self._held: set[Turn] = set()
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._places = count()
        self._waiting = 0
        self._never_asked = 0
        self._ended = 0
        self._last_end = 0.0
        self._tending = False

    def share(self, seconds: float) -> float:
        """Return for how long each turn may last if all who wait are to be served within `seconds`."""
        return max(LEAST_SECONDS, seconds * self.number / (self._waiting + self.number)) if self._waiting else seconds

    @asynccontextmanager
    async def turn(self, *, due: float, tries: int = 0, may_give_way: bool = True) -> AsyncIterator[Turn]:
        """Wait for a turn; fewer `tries` come first. `due`: when an answer is, by the loop's clock."""
        await self._wait(tries)
        turn = Turn(asyncio.get_running_loop().time(), due, self._ended, may_give_way)
        self._held.add(turn)
        try:
            yield turn
        finally:
            self._held.discard(turn)
            self._pass_on(ended=not turn.gave_way)

    async def _wait(self, tries: int) -> None:
        if self._free:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._queue, (tries, next(self._places), mine))
        self._waiting += 1
        self._never_asked += tries == 0
        self._tend_later()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was our turn at that very moment
                self._pass_on(ended=False)
            raise
        finally:
            self._waiting -= 1
            self._never_asked -= tries == 0

    def _pass_on(self, *, ended: bool) -> None:
        if ended:
            self._ended += 1
            self._last_end = asyncio.get_running_loop().time()
        while self._queue:
            _, _, next_one = heappop(self._queue)
            if not next_one.done():
                next_one.set_result(None)
                return
        self._free += 1

    def _tend_later(self) -> None:
        if not self._tending:
            self._tending = True
            asyncio.get_running_loop().call_later(_EVERY_SECONDS, self._tend)

    def _tend(self) -> None:
        self._tending = False
        if not self._waiting:
            return
        self._tend_later()
        if not self._never_asked:  # 1
            return
        now = asyncio.get_running_loop().time()
        stands_still = now - self._last_end > LEAST_SECONDS
        overdue = [turn for turn in self._held if turn.may_give_way and self._is_overdue(turn, now, stands_still)]  # 2
        overdue.sort(key=lambda turn: turn.began)
        for turn in overdue[: max(0, len(overdue) - self.number // 2)]:  # 3
            _give_way(turn, now)

    def _is_overdue(self, turn: Turn, now: float, stands_still: bool) -> bool:
        overtaken = self._ended - turn.ended_before >= 2 * self.number and now - turn.began > LEAST_SECONDS
        patience = self.share(turn.due - now) / 2  # half of the turns serve those who wait
        return overtaken or (stands_still and now - turn.began > max(LEAST_SECONDS, patience))


def _give_way(turn: Turn, now: float) -> None:
    if turn.limit is not None and not turn.gave_way and not turn.limit.expired():
        turn.gave_way = True
        turn.limit.reschedule(now)
