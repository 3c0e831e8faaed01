"""The pods of one scope as they are now: listed once, then kept up to date by a watch.

1. List, and watch from the list's version on. Changes that the watch reports update what is known.
2. A watch that ends or breaks is resumed where it ended, at once, or after a pause that grows while nothing comes.
3. If the server no longer has that version, or several watches in a row gave nothing, or watching is not allowed, the
   pods are listed again; without the right to watch, every `period_seconds`.
4. After an hour they are listed again in any case.
"""

import asyncio
import random

from collector.agents.agent_source import MOST_SIGHTINGS, PodPlace
from collector.agents.kubernetes.api import PodApi, PodScope
from collector.agents.kubernetes.pods import Change, ChangeKind, Expired
from collector.gather.failures import NoAnswer
from shared.missing import Missing, Reason

_LISTED_AGAIN_SECONDS = 3600.0
_FRUITLESS = 3
"""Watches in a row after which the pods are listed again."""
_LASTING_SECONDS = 5.0
"""A watch that lasted this long was not in vain, even if nothing changed."""
_FIRST_PAUSE_SECONDS = 0.25
_JITTER = 0.3


class PodView:
    """What is known of one scope. Reading it never waits."""

    def __init__(self, api: PodApi, scope: PodScope, *, period_seconds: float) -> None:
        self.scope = scope
        self.pods: dict[str, PodPlace] = {}
        self.trouble: Missing | None = None
        self.changed = asyncio.Event()
        self._api = api
        self._period_seconds = period_seconds
        self._version: str | None = None
        self._listed_at = 0.0
        self._taken = 0

    async def refresh(self) -> None:
        """Step 1: list. Raises NoAnswer; what was known then stays in use."""
        listed, version = await self._api.pods(self.scope)
        self.pods = {pod.key: pod for pod in listed}
        self._version = version or None
        self._listed_at = asyncio.get_running_loop().time()
        self.trouble = None
        self.changed.set()

    def fail(self, error: NoAnswer, *, what: str) -> None:
        """Report that these pods cannot be read."""
        detail = f"{what}: {error}; those known before are kept"
        self.trouble = Missing(source="kubernetes", reason=error.reason, detail=detail)
        self._version = None
        self.changed.set()

    async def keep(self) -> None:
        """Follow the changes forever. Raises NoAnswer if the pods cannot be listed, either."""
        fruitless = 0
        while True:
            if self._version is None or self._seconds_since(self._listed_at) > _LISTED_AGAIN_SECONDS:
                await self.refresh()
            fruitless = 0 if await self._watch() else fruitless + 1
            if fruitless >= _FRUITLESS:
                self._version = None
            await asyncio.sleep(self._pause(fruitless))

    async def _watch(self) -> bool:
        """Step 2; returns whether it was worth it. A server that gives its lists no version cannot be watched."""
        if self._version is None:
            return False
        began, taken = asyncio.get_running_loop().time(), self._taken
        try:
            await self._api.watch(self.scope, self._version, self._take)
        except Expired:
            self._version = None
            return False
        except NoAnswer:
            return self._taken > taken  # it is resumed; if the list fails, too, that is reported
        return self._taken > taken or self._seconds_since(began) > _LASTING_SECONDS

    def _seconds_since(self, moment: float) -> float:
        return asyncio.get_running_loop().time() - moment

    def _take(self, change: Change) -> None:
        self._taken += 1
        pod = change.pod
        if pod is not None and change.kind is ChangeKind.DELETED:
            if self.pods.pop(pod.key, None) is not None:
                self.changed.set()
        elif pod is not None and self.pods.get(pod.key) != pod:
            if len(self.pods) >= MOST_SIGHTINGS and pod.key not in self.pods:
                raise NoAnswer(Reason.REFUSED, f"there are more than {MOST_SIGHTINGS} pods")
            self.pods[pod.key] = pod
            self.changed.set()
        self._version = change.version

    def _pause(self, fruitless: int) -> float:
        longest = min(self._period_seconds, _FIRST_PAUSE_SECONDS * 2.0 ** min(10, max(0, fruitless - 1)))
        return (longest if fruitless else min(0.05, longest)) * random.uniform(1 - _JITTER, 1 + _JITTER)
