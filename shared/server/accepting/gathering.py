"""Looks at what a descriptor brings as it comes; while many plain requests come, once at what a moment has brought.

To be woken costs a process as much as the answer to a plain request.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


class Gathering:
    """One descriptor, looked at. Used by the event loop's thread alone."""

    def __init__(self, file: _HasDescriptor, look: Callable[[], float | None]) -> None:
        """`look` returns after which pause it is to look again; None: as soon as something comes."""
        self._file = file
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._is_watching = False
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at what comes from now on."""
        self._go_on(None)

    def stop(self) -> None:
        """Look at nothing any more."""
        if self._next is not None:
            self._next.cancel()
        self._look_away()

    def _look_now(self) -> None:
        pause = None
        try:
            pause = self._look()
        finally:
            self._go_on(pause)

    def _go_on(self, pause: float | None) -> None:
        if pause is not None:
            self._look_away()
            self._next = self._loop.call_later(pause, self._look_now)
        elif not self._is_watching:
            self._loop.add_reader(self._file, self._look_now)
            self._is_watching = True

    def _look_away(self) -> None:
        if self._is_watching:
            self._loop.remove_reader(self._file)
            self._is_watching = False
