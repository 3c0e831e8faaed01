"""Reads the marks of every rank in each beat, without ever being held up by one of them.

1. All ranks are read in one task, under a deadline of its own. A page of memory that its owner lets nobody read blocks
   the reader in the kernel: a rank that still blocks it a beat later is avoided from then on (find/blockers.py).
2. A rank whose memory tells nothing is read again after a pause, twice as long each time: PyTorch makes its recorder
   with the first process group, and may make none.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice

from agent.deadline import Deadline, Late, ThreadPool
from agent.errors import Gone, Unavailable
from agent.find.blockers import Blockers, Key
from agent.find.choose_ranks import Rank
from agent.proc.procfs import ProcFs
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.marks import GroupMark, MarkReader
from shared.errors import NotPermitted

_MOST_RANKS = 128
_READ_SECONDS = 3.0
"""For all ranks of a node. A millisecond each will do, once their libraries' symbols are known."""
_ENDS_SECONDS = 0.3
"""A reader that heeds its deadline has ended so long after it; one that has not is blocked."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 120.0

Taker = Callable[[Rank, tuple[GroupMark, ...]], None]
"""Told the marks of a rank."""


@dataclass(frozen=True)
class _Failed:
    pause: float
    next_at: float


class MarkBeats:
    """Reads marks. One caller at a time."""

    def __init__(
        self,
        procfs: ProcFs,
        pool: ThreadPool,
        *,
        reader: MarkReader | None = None,
        blockers: Blockers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._procfs = procfs
        self._pool = pool
        self._clock = clock
        self._reader = reader or MarkReader(RecorderLocator())
        self._failed: dict[Key, _Failed] = {}
        self._blockers = blockers or Blockers(procfs)
        self._late_in: Key | None = None
        self._stuck = 0
        """Tasks that were given up: what comes after them is a new task to the pool."""

    def beat(self, ranks: Iterable[Rank], deadline: Deadline, *, take: Taker, gone: Callable[[Rank], None]) -> None:
        """Read the marks of those who are due; `take` is told each, `gone` who is found to have ended."""
        living = {rank.key: rank for rank in ranks}
        self._failed = {key: failed for key, failed in list(self._failed.items()) if key in living}
        due = list(islice(filter(self._is_due, living.values()), _MOST_RANKS))
        if not due:
            return
        limit, reading = deadline.at_most(_READ_SECONDS), list[Rank]()
        task = partial(self._read_all, due, reading, limit.sooner(_ENDS_SECONDS), take, gone)
        owner = ("marks", self._stuck)
        is_stuck = self._pool.is_stuck(owner, "marks")
        outcome = self._pool.run({"marks": task}, limit, owner=owner)["marks"]
        self._note(outcome, next(iter(reading), None), is_stuck)

    def _read_all(
        self, due: Iterable[Rank], reading: list[Rank], deadline: Deadline, take: Taker, gone: Callable[[Rank], None]
    ) -> None:
        """Read one after the other; `reading` holds the one being read now. Past the deadline each refuses at once."""
        for rank in due:
            reading[:] = [rank]
            try:
                marks = self._reader.read(self._procfs, rank, deadline)
            except Gone:
                gone(rank)
            except (Unavailable, NotPermitted):
                self._back_off(rank)
            else:
                self._failed.pop(rank.key, None)
                take(rank, marks)
        reading.clear()

    def _note(self, outcome: Exception | None, reading: Rank | None, is_stuck: bool) -> None:
        """Step 1. A task that was not begun because the one before it `is_stuck` is late as well."""
        late_in, self._late_in = self._late_in, None
        if isinstance(outcome, Late) and reading is None and is_stuck and late_in is not None:
            self._blockers.add(late_in, partial(self._pool.is_stuck, ("marks", self._stuck), "marks"))
            self._stuck += 1
        elif isinstance(outcome, Late) and reading is not None:
            self._late_in = reading.key
        if outcome is not None and reading is not None:
            self._back_off(reading)

    def _is_due(self, rank: Rank) -> bool:
        failed = self._failed.get(rank.key)
        return (failed is None or failed.next_at <= self._clock()) and not self._blockers.is_avoided(rank.stat)

    def _back_off(self, rank: Rank) -> None:
        """Step 2."""
        before = self._failed.get(rank.key)
        pause = _FIRST_PAUSE_SECONDS if before is None else min(2 * before.pause, _LONGEST_PAUSE_SECONDS)
        self._failed[rank.key] = _Failed(pause, self._clock() + pause)
