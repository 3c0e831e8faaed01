"""Shares registrations through the store in the background: the collector answers from memory, the store follows.

At intervals the registrations received here are written, and those of all collectors are read. This runs in its own
thread with a deadline, so that a slow or broken store delays no one: what was known stays in use, what is received here
is known here, and is written once the store works again.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from collector.agents.registration.registered import SOURCE, Leases
from collector.concurrency.tasks import in_background
from collector.concurrency.threads import OwnThread
from collector.keep.registrations import Registrations
from shared.errors import UnhangError
from shared.missing import Missing, Reason

_EXCHANGES_PER_LEASE = 8
"""Agents register three times within a lease: what one collector receives must reach the others well within it."""

_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.05, 15.0
_JITTER = 0.2
_DEADLINE_SECONDS = 5.0
_AGENTS_PER_SECOND = 4096.0
"""A rate that even a busy machine reaches: an exchange of many gets this much longer."""
_END_SECONDS = 2.0
"""For the last exchange, when the collector shuts down."""

_log = logging.getLogger(__name__)


class LeaseSharing:
    """Keeps leases and store in step."""

    def __init__(
        self, leases: Leases, registrations: Registrations, *, deadline_seconds: float = _DEADLINE_SECONDS
    ) -> None:
        self._leases = leases
        self._registrations = registrations
        self._deadline_seconds = deadline_seconds
        self._known = 0
        self._thread = OwnThread("registrations")

    async def exchange(self) -> None:
        """Write and read once. Failures are reported in `trouble` of the leases."""
        renewals = self._leases.take_unwritten()
        due_seconds = self._deadline_seconds + max(len(renewals), self._known) / _AGENTS_PER_SECOND
        stored = None
        try:
            async with asyncio.timeout(due_seconds):
                stored = await self._thread.run(partial(self._registrations.exchange, renewals))
        except TimeoutError:
            self._fail(f"no answer within {due_seconds:.0f} s")
        except UnhangError as error:
            self._fail(str(error))
        finally:
            if stored is None:
                self._leases.put_back(renewals)
        if stored is not None:
            self._leases.learn(stored)
            self._known = len(stored)
            if self._leases.trouble is not None:
                _log.info("registrations are shared and stored again")
            self._leases.trouble = None

    async def keep_on(self, stop: asyncio.Event) -> None:
        """Exchange until `stop`, and once more then."""
        period = min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, self._leases.seconds / _EXCHANGES_PER_LEASE))
        is_last = False
        while not is_last:
            try:
                async with asyncio.timeout(period * random.uniform(1 - _JITTER, 1)):
                    await stop.wait()
            except TimeoutError:
                pass
            is_last = stop.is_set()  # what is received during an exchange is for the next one
            await self.exchange()

    def _fail(self, why: str) -> None:
        if self._leases.trouble is None:
            _log.warning("registrations are neither shared nor stored: %s", why)
        self._leases.trouble = Missing(
            source=SOURCE,
            reason=Reason.UNREACHABLE,
            detail="the store fails: registrations at other collectors are unknown; those known before are kept",
        )


@asynccontextmanager
async def shared_leases(leases: Leases | None, registrations: Registrations) -> AsyncIterator[None]:
    """Know what the store knows, and keep both in step until the end of the context."""
    if leases is None:
        yield
        return
    sharing = LeaseSharing(leases, registrations)
    await sharing.exchange()
    stop = asyncio.Event()
    async with in_background(sharing.keep_on(stop), "sharing registrations") as task:
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait([task], timeout=_END_SECONDS)
