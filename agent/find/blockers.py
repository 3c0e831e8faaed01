"""Processes that blocked whoever read about them, and users who have too many of those.

A page of memory may lie in a file system that its user serves and never answers for: who reads it is blocked in the
kernel, and that thread is lost for as long as the process lives.

1. Such a process is not read again while it lives and holds that thread, and for ten minutes at least: starting it
   anew gains nothing. Whoever counts no longer is forgotten before anybody else is refused.
2. Of a user who has a few of them, or of a pod where users of several pods have the same number, nothing new is read
   any more: they cost us a few threads, and other users nothing.
3. Where many users have some, one of each is enough.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from agent.errors import Gone
from agent.find.pod_of_process import kubelets_place_of
from agent.find.process_owner import user_of
from agent.proc.procfs import ProcFs, Stat
from shared.errors import NotPermitted

MOST_OF_ONE = 4
_MANY = 32
_COUNTS_SECONDS = 600.0

Key = tuple[int, int]
_Whose = tuple[str | None, str | None]
"""The user as `Identity.user` has it, and the pod."""


class _Blocker(NamedTuple):
    whose: _Whose
    at: float
    holds_thread: Callable[[], bool]


class Avoided(NamedTuple):
    """What is avoided of one user. `wholly`: nothing new of theirs is read."""

    user: str | None
    pids: tuple[int, ...]
    wholly: bool


class Blockers:
    """Remembers them. Safe to use from many threads; nothing here reads what could block."""

    def __init__(self, procfs: ProcFs, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._procfs = procfs
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[Key, _Blocker] = {}
        self._avoided: frozenset[_Whose] = frozenset()

    def __contains__(self, key: Key) -> bool:
        """Has this very process blocked its reader?"""
        return key in self._known

    def add(self, key: Key, holds_thread: Callable[[], bool] = lambda: True) -> None:
        """Note a process that blocks its reader now. `holds_thread`: does it still, later?"""
        with self._lock:
            self._known = {**self._known, key: _Blocker(self._whose(key[0]), self._clock(), holds_thread)}
            self._count()

    def prune(self) -> None:
        """Step 1."""
        if self._known:
            now = self._clock()
            with self._lock:
                self._known = {
                    key: blocker
                    for key, blocker in self._known.items()
                    if now - blocker.at < _COUNTS_SECONDS or (self._lives(key) and blocker.holds_thread())
                }
                self._count()

    def is_avoided(self, stat: Stat) -> bool:
        """Is this one of them, or another process of a user who has too many?"""
        if not self._known:
            return False
        return stat.key in self._known or (bool(self._avoided) and self._whose(stat.pid) in self._avoided)

    def told(self) -> tuple[Avoided, ...]:
        """Return what is avoided now, by user."""
        pids: dict[_Whose, list[int]] = {}
        known, avoided = self._known, self._avoided
        for key, blocker in known.items():
            if blocker.whose in avoided or self._lives(key):
                pids.setdefault(blocker.whose, []).extend([key[0]] if self._lives(key) else [])
        return tuple(
            Avoided(whose[0], tuple(sorted(found)), whose in avoided)
            for whose, found in sorted(pids.items(), key=lambda item: tuple(each or "" for each in item[0]))
        )

    def _count(self) -> None:
        """Steps 2 and 3."""
        most = MOST_OF_ONE if len(self._known) < _MANY else 1
        counts = Counter(blocker.whose for blocker in self._known.values())
        self._avoided = frozenset(whose for whose, count in counts.items() if count >= most)

    def _whose(self, pid: int) -> _Whose:
        with suppress(Gone):
            place = kubelets_place_of(self._procfs, pid)
            return user_of(self._procfs, pid), None if place is None else place.pod_uid
        return None, None

    def _lives(self, key: Key) -> bool:
        with suppress(Gone, NotPermitted):
            return self._procfs.stat(key[0]).start_ticks == key[1]
        return False
