"""One source, polled in the background: while it fails, its last good answer stays in use.

A source that reports changes by itself is asked once, and again only if that has ended.
"""

import asyncio
import logging
import random

from collector.agents.agent_source import MOST_SIGHTINGS, AgentSource, Follower, SourceReading
from collector.gather.failures import NoAnswer
from shared.errors import UnhangError
from shared.missing import Missing, Reason

_log = logging.getLogger(__name__)

_JITTER = 0.2
"""Share of the pause by which it varies, so that replicas do not ask in step."""


class PolledSource:
    """A source's last answer, and what is wrong with the source now. Reading it never waits."""

    def __init__(self, source: AgentSource, *, deadline_seconds: float) -> None:
        self.name = source.name
        self.reading = SourceReading()
        self.trouble: Missing | None = None
        self._source = source
        self._deadline_seconds = deadline_seconds

    async def refresh(self) -> None:
        """Ask the source once, within the deadline."""
        try:
            async with asyncio.timeout(self._deadline_seconds):
                self._take(await self._source.read())
        except TimeoutError:
            self._fail(Reason.TIMED_OUT, f"no answer within {self._deadline_seconds:.1f} s")
        except UnhangError as error:
            self._refuse(error)

    async def keep_fresh(self, *, period_seconds: float) -> None:
        """Ask the source forever."""
        while True:
            if isinstance(self._source, Follower) and self.trouble is None:
                try:
                    await self._source.follow(self._take)
                except UnhangError as error:
                    self._refuse(error)
            await asyncio.sleep(period_seconds * random.uniform(1 - _JITTER, 1 + _JITTER))
            await self.refresh()

    def give_up(self, error: BaseException) -> None:
        """Report a mistake of ours that has ended the polling: what was known stays in use."""
        _log.error("asking %s has ended", self.name, exc_info=error)
        self._fail(Reason.UNREADABLE, f"asking it has ended with {type(error).__name__}, restart the collector")

    def _take(self, reading: SourceReading) -> None:
        if len(reading.sightings) > MOST_SIGHTINGS:
            raise NoAnswer(Reason.REFUSED, f"it names more than {MOST_SIGHTINGS} agents")
        if self.trouble is not None:
            _log.info("agents are known from %s again", self.name)
        self.reading, self.trouble = reading, None

    def _refuse(self, error: UnhangError) -> None:
        self._fail(error.reason if isinstance(error, NoAnswer) else Reason.UNREADABLE, str(error))

    def _fail(self, reason: Reason, detail: str) -> None:
        trouble = Missing(source=self.name, reason=reason, detail=f"{detail}; the agents known before are kept")
        if self.trouble is None or self.trouble.reason is not reason:
            _log.warning("agents from %s: %s", self.name, trouble.detail)
        self.trouble = trouble
