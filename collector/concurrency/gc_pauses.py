"""When Python looks for garbage: hardly while a diagnosis is made, and soon after the last one."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 50_000
"""Objects after which it looks for garbage among them, instead of 700."""

_WHILE_LOOKING = 1_000_000
"""The same while a diagnosis is made. The looks at a large job are hundreds of thousands of objects that all stay:
looking through them takes a quarter of the time that reading them does, and finds nothing."""

_OLDER = (20, 100)
"""Such searches before one among older objects, and those before one among all."""

_TIDY_AFTER_SECONDS = 2.0
"""After a diagnosis, so that what is left of its looks does not lie about until the next one."""

_RECENT, _ALL = 1, 2
"""Generations. What a diagnosis leaves is recent: to find it takes a small part of a search among all."""


def set_up() -> None:
    """Leave out of all searches what is there now: modules, settings, what lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *_OLDER)


class Garbage:
    """Knows how many diagnoses are being made, and whether there may be something left of others."""

    def __init__(self) -> None:
        self._under_way = 0
        self._left = False

    @contextmanager
    def left_lying(self) -> Iterator[None]:
        """Search hardly ever within, and among all soon after. A next one before that waits for the recent alone."""
        self._tidy(_RECENT)
        self._under_way += 1
        if gc.get_threshold()[0] == YOUNG:
            gc.set_threshold(_WHILE_LOOKING, *_OLDER)
        try:
            yield
        finally:
            self._under_way -= 1
            self._left = True
            asyncio.get_running_loop().call_later(_TIDY_AFTER_SECONDS, self._tidy, _ALL)

    def _tidy(self, generation: int) -> None:
        if self._under_way or not self._left:  # the last one collects: a search now would be among looks that stay
            return
        self._left = False
        gc.collect(generation)
        if gc.get_threshold()[0] == _WHILE_LOOKING:
            gc.set_threshold(YOUNG, *_OLDER)
