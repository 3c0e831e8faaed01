"""One question to one agent, pursued over as many tries as make sense within its time."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

import httpx

from collector.concurrency.threads import run_in_thread
from collector.gather.failures import Again, NoAnswer, collector_too_busy, no_connection
from collector.gather.fanout.loop_lag import LoopLag
from collector.gather.fanout.one_request import Exchange
from collector.gather.fanout.slots import LEAST_SECONDS, Slots
from collector.gather.fanout.values import Answered, Request, RequestDeadline, T
from shared.missing import Reason

CONNECT_SECONDS = 3.2
"""For a connection, in all tries together: Linux sends a SYN at once, after 1 s and after 3 s."""

AGAIN_SECONDS = 1.2
"""The same for a host that did not react to a whole such time: a SYN at once and after 1 s …"""

UNREACHED_SECONDS = 300.0
"""… for so long, and then it gets the whole time once more."""

_MOST_UNREACHED = 65_536
"""Twice as many as may register; those that are gone are kept until then."""

_SHARE_FOR_CONNECTING = 0.7
"""Of the time that each may have where many wait."""

_MUCH_BEHIND_SECONDS = 0.25
_MUCH_BEHIND_SHARE = 0.25
"""Of the time in which there was no answer: with less of it missed, an agent that answers is in time."""

_WORTH_A_TRY_SECONDS = 0.05
_BIG_BODY_BYTES = 1_048_576
"""Larger bodies are read in a thread, so that one does not hold up the others."""

_HUGE_BODY_BYTES = 8_388_608
"""Larger ones are read one at a time: a byte becomes up to three hundred while it is read."""

_READERS = 4


@dataclass(frozen=True)
class Means:
    """What the questions of one fan-out share."""

    client: httpx.AsyncClient
    turns: Slots
    node_seconds: float
    most_bytes: int
    readers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READERS))
    one_reader: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    lag: LoopLag = field(default_factory=LoopLag)
    unreached: dict[str, float] = field(default_factory=dict)
    """URLs of agents to which there was no connection, and since when."""

    def connect_seconds(self, url: str) -> float:
        """Return how long a connection to an agent may take: whoever registers hosts that are not there pays."""
        since = self.unreached.get(url)
        if since is not None and time.monotonic() - since > UNREACHED_SECONDS:
            del self.unreached[url]
            since = None
        return CONNECT_SECONDS if since is None else AGAIN_SECONDS


class Inquiry(Generic[T]):
    """One question, and what has become of it so far."""

    def __init__(self, request: Request, deadline: RequestDeadline, means: Means, read: Callable[[bytes], T]) -> None:
        self.request = request
        self.deadline = deadline
        self.asked_again: Again | None = None
        self.began: float | None = None
        """When it had its first turn, by `time.monotonic`."""
        self.ended = False
        self.second: asyncio.Task[Answered[T]] | None = None
        """Another try while the first is under way."""
        self._means = means
        self._read = read
        self._tries = 0
        self._held_seconds = 0.0
        self._connecting_seconds = 0.0
        self._may_connect_for = means.connect_seconds(request.address.url)
        self._broke_off = False
        self._failure: NoAnswer | None = None
        self._second_answer: Answered[T] | None = None
        self._limit: asyncio.Timeout | None = None

    async def pursue(self, on_again: Callable[[Again], None]) -> Answered[T]:
        """Return the answer. Raises NoAnswer, by the deadline."""
        began, behind_before = time.monotonic(), self._means.lag.behind_seconds
        try:
            async with self._means.lag.limit(self.deadline.seconds_left, due=self.deadline.at) as self._limit:
                return await self._first_of_two(on_again)
        except TimeoutError:
            if self._second_answer is not None:
                return self._second_answer
            failure = self._failure or NoAnswer(Reason.TIMED_OUT, "not asked in time: other agents were slow")
        except NoAnswer as error:
            failure = error
        finally:
            self.ended = True
        behind = self._means.lag.behind_seconds - behind_before
        if self._is_ours(failure, behind, time.monotonic() - began):
            raise collector_too_busy(behind)
        self._note_unreached(failure)
        raise failure

    def _note_unreached(self, failure: NoAnswer) -> None:
        if failure.again is not Again.NO_CONNECTION or self._has_time_to_connect():
            return
        if self._may_connect_for < CONNECT_SECONDS:
            failure.args = (f"{failure}; it was not reached before, and so given less time",)
        if len(self._means.unreached) >= _MOST_UNREACHED:
            self._means.unreached.clear()
        self._means.unreached.setdefault(self.request.address.url, time.monotonic())

    def _has_time_to_connect(self) -> bool:
        return self._connecting_seconds + LEAST_SECONDS < self._may_connect_for

    def _is_ours(self, failure: NoAnswer, behind: float, seconds: float) -> bool:
        """Is there no answer because we were too busy to read it, rather than because its time is over?"""
        had_its_time = not self._has_time_to_connect() or self._held_seconds + LEAST_SECONDS >= self._means.node_seconds
        much = behind >= max(_MUCH_BEHIND_SECONDS, _MUCH_BEHIND_SHARE * seconds)
        return failure.reason is Reason.TIMED_OUT and much and not had_its_time

    def try_twice(self) -> None:
        """Start a second try while the first is under way, and take whichever answer comes first."""
        twin = Inquiry(self.request, self.deadline, self._means, self._read)
        twin._tries = 1
        self.second = asyncio.create_task(twin._try())
        self.second.add_done_callback(self._settle)

    def _settle(self, second: asyncio.Task[Answered[T]]) -> None:
        if second.cancelled() or second.exception() is not None or self.ended:
            return
        self._second_answer, self.asked_again = second.result(), Again.LATE
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def _first_of_two(self, on_again: Callable[[Again], None]) -> Answered[T]:
        try:
            return await self._persist(on_again)
        except NoAnswer:
            if self.second is None:
                raise
            await asyncio.wait({self.second})
            if self._second_answer is None:
                raise
            return self._second_answer

    async def _persist(self, on_again: Callable[[Again], None]) -> Answered[T]:
        while True:
            try:
                return await self._try()
            except NoAnswer as failure:
                self._failure = failure
                if failure.again is None or not self._may_try_again(failure.again):
                    raise
                self.asked_again = failure.again
                on_again(failure.again)

    def _may_try_again(self, why: Again) -> bool:
        if min(self.deadline.seconds_left, self._means.node_seconds - self._held_seconds) < _WORTH_A_TRY_SECONDS:
            return False
        if why is Again.NO_CONNECTION:
            return self._has_time_to_connect()
        if why is Again.BROKE_OFF:
            first, self._broke_off = not self._broke_off, True
            return first and self.request.may_be_repeated
        return True

    async def _try(self) -> Answered[T]:
        may_give_way, means = self.request.may_be_repeated, self._means
        async with means.turns.turn(due=self.deadline.at, tries=self._tries, may_give_way=may_give_way) as turn:
            self._tries += 1
            await asyncio.sleep(0)  # the rest of the round takes its places: that tells how many wait
            self.began, running_seconds = self.began or time.monotonic(), means.lag.stopwatch()
            seconds = min(means.node_seconds - self._held_seconds, self.deadline.seconds_left)
            if self._failure is not None and seconds < _WORTH_A_TRY_SECONDS:
                raise self._failure
            exchange = Exchange(means.client, most_bytes=means.most_bytes)
            try:
                async with means.lag.limit(seconds, due=self.deadline.at) as turn.limit:
                    return await self._answer(exchange, seconds)
            except TimeoutError:
                raise self._too_late(exchange, running_seconds(), gave_way=turn.gave_way) from None
            finally:
                self._held_seconds += running_seconds()
                if self._failure is None and self.deadline.seconds_left <= 0:  # both limits ended at one moment
                    self._failure = self._too_late(exchange, running_seconds())

    def _too_late(self, exchange: Exchange, seconds: float, *, gave_way: bool = False) -> NoAnswer:
        if exchange.is_connecting:
            self._connecting_seconds += seconds
            failure = no_connection(self._connecting_seconds)
        else:
            failure = exchange.too_late(seconds)
        failure.again = Again.GAVE_WAY if gave_way else None
        return failure

    async def _answer(self, exchange: Exchange, seconds: float) -> Answered[T]:
        asked_at_ns, began = time.time_ns(), time.monotonic()
        body = await self._body(exchange, seconds)
        self._means.unreached.pop(self.request.address.url, None)
        answered_at_ns, took_seconds = time.time_ns(), time.monotonic() - began
        if len(body) > _BIG_BODY_BYTES:
            readers = self._means.readers if len(body) <= _HUGE_BODY_BYTES else self._means.one_reader
            async with readers:
                value = await run_in_thread(self._read, body)
        else:
            value = self._read(body)
        return Answered(self.request.address, value, len(body), took_seconds, asked_at_ns, answered_at_ns)

    async def _body(self, exchange: Exchange, seconds: float) -> bytes:
        share = _SHARE_FOR_CONNECTING * self._means.turns.share(self.deadline.seconds_left)
        connect_seconds = min(
            0.9 * seconds, max(LEAST_SECONDS, share), self._may_connect_for - self._connecting_seconds
        )
        fresh = self._tries > 1
        while True:
            url, running_seconds = self.request.address.url + self.request.path, self._means.lag.stopwatch()
            try:
                return await exchange.fetch(url, self.request.parameters, connect_seconds=connect_seconds, fresh=fresh)
            except NoAnswer as failure:
                if failure.again is Again.NO_CONNECTION:
                    self._connecting_seconds += min(connect_seconds, running_seconds())
                    raise no_connection(self._connecting_seconds) from failure
                if exchange.status != 404 or self.request.otherwise is None:
                    raise
                self.request = self.request.otherwise
