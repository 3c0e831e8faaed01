"""This node: finds its ranks under a deadline, and keeps the watch over them."""

import threading
from functools import partial

from agent.deadline import Crew, Deadline, Late
from agent.discover import Found, discover
from agent.errors import Unavailable
from agent.processes import Lister, Listing
from agent.procfs import ProcFs
from agent.watch import Watch
from shared.missing import Missing, Reason
from shared.ranks import unfold

_FIND_SECONDS = 2.0
_MOST_AVOIDED = 64


class Node:
    """Everything the agent knows about the machine it runs on. One caller at a time finds."""

    def __init__(self, procfs: ProcFs, host: str, crew: Crew, *, only_ranks: str | None = None) -> None:
        self.procfs = procfs
        self.host = host
        self._crew = crew
        self._only = None if only_ranks is None else frozenset(unfold(only_ranks))
        self._lister = Lister(procfs)
        self._avoided: frozenset[tuple[int, int]] = frozenset()
        self._lock = threading.Lock()
        self.watch = Watch(procfs, host)

    @property
    def abandoned(self) -> int:
        """How many looks never came back."""
        return self._crew.abandoned

    def find(self, deadline: Deadline, *, quick: bool = False) -> Found:
        """Find the ranks that are here now; `quick` looks closely only at processes that are new or run Python.

        Raises Unavailable when the machine does not let us look in time.
        """
        with self._lock:
            while len(self._avoided) < _MOST_AVOIDED:
                limit = deadline.at_most(_FIND_SECONDS)
                outcome = self._crew.run({"find": partial(self._find, quick)}, limit, owner=id(self._lister))["find"]
                if isinstance(outcome, tuple):
                    return self._seen(*outcome)
                if not isinstance(outcome, Late):
                    raise outcome
                self._avoid_the_stuck()
        raise Unavailable(Reason.TIMED_OUT, "listing the processes of this machine takes too long")

    def beat(self, deadline: Deadline) -> None:
        """Take every rank's beat."""
        self._crew.run({"beat": self.watch.beat}, deadline, owner="watch")

    def _find(self, quick: bool) -> tuple[Found, Listing]:
        lister = self._lister
        listing = lister.listing(self._avoided, quick=quick)
        return discover(listing, lister, self.procfs, self.host), listing

    def _avoid_the_stuck(self) -> None:
        """Reading about one process has blocked our thread: leave that process out from now on."""
        stuck = self._lister.reading
        if stuck is None:
            raise Unavailable(Reason.TIMED_OUT, "listing the processes of this machine takes too long")
        self._avoided |= {stuck}
        self._lister = self._lister.successor()

    def _seen(self, found: Found, listing: Listing) -> Found:
        if self._only is not None:
            kept = tuple(rank for rank in found.ranks if rank.identity.rank in self._only)
            found = found._replace(ranks=kept)
        self._avoided &= {(stat.pid, stat.start_ticks) for stat in listing.stats.values()}
        exited = self.watch.see(found, listing)
        return found._replace(exited=exited, missing=(*found.missing, *self._missing()))

    def _missing(self) -> tuple[Missing, ...]:
        if not self._avoided:
            return ()
        pids = ", ".join(str(pid) for pid, _ in sorted(self._avoided))
        detail = f"reading about processes {pids} blocked; they are left out, or told of as last known"
        return (Missing(source="ranks", reason=Reason.TIMED_OUT, detail=detail),)
