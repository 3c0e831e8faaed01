"""This node: finds its ranks under a deadline, and keeps the watch over them."""

import threading
import time
from functools import partial
from typing import NamedTuple

from agent.deadline import Deadline, Late, NoThread, ThreadPool, TooManyAbandoned
from agent.errors import missing_for
from agent.find.blockers import Avoided, Blockers
from agent.find.choose_ranks import FoundRanks, discover
from agent.find.group_search import GroupSearch
from agent.find.pending_launchers import waiting_launchers
from agent.find.process_owner import owner_of
from agent.find.processes import Lister, Listing
from agent.look.mark_beats import MarkBeats
from agent.look.progress_watch import Watch
from agent.proc.procfs import ProcFs, Stat
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.memory.marks import MarkReader
from shared.missing import Missing, Reason
from shared.rank_sets import unfold
from shared.wire.snapshot import Exited, Identity

_FIND_SECONDS = 2.0
"""For a listing, until it is asked whether one process blocks it; on a machine that is only busy it may take longer."""
_AGAIN_SECONDS = 0.3
"""For the next one where one process has blocked the last: many users may have such, and what is known is kept."""
_SEARCH_SECONDS, _QUICK_SEARCH_SECONDS = 2.5, 1.0
"""For process groups in memory, of which a gigabyte is searched in half a second. Who asks waits for five seconds."""
_SEARCH_ENDS_SECONDS = 0.3
"""A search that heeds its deadline has ended so long after it; one that has not is blocked."""
_SLOW_SECONDS, _MOMENT_SECONDS = 0.25, 0.005
"""Reading about one process takes milliseconds, and a turn on a processor comes sooner than the first of these."""
_TORCHRUN = "torchrun"
_TOO_LONG = "listing the processes of this machine takes too long: it is busy, or reading about some of them blocks"


class _Found(NamedTuple):
    """What one listing gave, and in whose memory a process group is to be looked for."""

    found: FoundRanks
    listing: Listing
    due: list[Stat]


class Node:
    """Everything the agent knows about the machine it runs on. One caller at a time finds."""

    def __init__(
        self,
        procfs: ProcFs,
        host: str,
        pool: ThreadPool,
        *,
        only_ranks: str | None = None,
        only_users: frozenset[int] = frozenset(),
        locator: RecorderLocator | None = None,
    ) -> None:
        """Tell of these ranks and of these users' processes alone; without users, of everybody's."""
        self.procfs = procfs
        self.host = host
        self._pool = pool
        self._only = None if only_ranks is None else frozenset(unfold(only_ranks))
        self._users = only_users
        self._blockers = Blockers(procfs)
        self._lister = Lister(procfs, blockers=self._blockers)
        self._search = GroupSearch(procfs, self._blockers)
        self._lock = threading.Lock()
        reader = MarkReader(locator or RecorderLocator())
        self._mark_beats = MarkBeats(procfs, pool, reader=reader, blockers=self._blockers)
        self.watch = Watch(procfs, host)

    @property
    def abandoned(self) -> int:
        """How many looks never came back."""
        return self._pool.abandoned

    def avoided(self) -> tuple[Avoided, ...]:
        """Return what is not read, by user, because reading about it blocked."""
        return self._blockers.told()

    def find(self, deadline: Deadline, *, quick: bool = False) -> FoundRanks:
        """Find the ranks that are here now; `quick` looks closely only at processes that are new or run Python.

        Where the machine does not let us look in time, that is what is missing.
        """
        with self._lock:
            found = self._listed(deadline, quick)
            if isinstance(found, Missing):
                return FoundRanks((), (), (found,))
            if found.due and self._search_groups(found.due, deadline, quick):
                again = self._listed(deadline, quick)
                if isinstance(again, Missing):
                    again = found._replace(found=found.found._replace(missing=(*found.found.missing, again)))
                found = again
            return self._seen(found.found, found.listing)

    def _listed(self, deadline: Deadline, quick: bool) -> _Found | Missing:
        self._blockers.prune()
        usual = _FIND_SECONDS
        while True:
            limit = deadline.at_most(usual)
            outcome = self._pool.run({"find": partial(self._find, quick)}, limit, owner=id(self._lister))["find"]
            if isinstance(outcome, Late) and deadline.left() > 0 and not limit.left():
                if self._avoid_the_stuck():
                    usual = _AGAIN_SECONDS
                    continue
                slow = Deadline(deadline.left() / 2)  # the rest is for looking at whom it finds
                outcome = self._pool.wait_on("find", slow, owner=id(self._lister))
            if isinstance(outcome, _Found):
                return outcome
            if isinstance(outcome, NoThread):
                return missing_for("ranks", outcome)
            if not isinstance(outcome, Late | TooManyAbandoned):
                raise outcome
            if not self._avoid_the_stuck() or deadline.left() <= 0:
                return Missing(source="ranks", reason=Reason.TIMED_OUT, detail=_TOO_LONG)

    def _search_groups(self, due: list[Stat], deadline: Deadline, quick: bool) -> bool:
        """Look for process groups in the memory of these processes. Returns whether there is news.

        Where a search that was late has not got on by the next, the process that it reads is left out from then on.
        """
        before, stuck_in, owner = self._search.groups, self._search.reading, id(self._search)
        limit = Deadline(deadline.left() / 2).at_most(_QUICK_SEARCH_SECONDS if quick else _SEARCH_SECONDS)
        self._search.expect(due)
        if self._pool.is_stuck(owner, "search"):
            outcome = self._pool.wait_on("search", limit, owner=owner)
            if isinstance(outcome, Late) and stuck_in is not None and stuck_in == self._search.reading:
                self._blockers.add(stuck_in, partial(self._pool.is_stuck, owner, "search"))
                self._search = self._search.successor()
        else:
            task = partial(self._search.search, due, limit.sooner(_SEARCH_ENDS_SECONDS))
            self._pool.run({"search": task}, limit, owner=owner)
        return self._search.groups != before

    def beat(self, deadline: Deadline) -> None:
        """Take every rank's beat, and read how far it is."""
        self._pool.run({"beat": self.watch.beat}, deadline, owner="watch")
        watch = self.watch
        self._mark_beats.beat(watch.ranks, deadline, take=watch.take_marks, gone=watch.take_gone)

    def _find(self, quick: bool) -> _Found:
        lister, search = self._lister, self._search
        listing = lister.listing(quick=quick, groups=search.groups)
        due = self._told_of(search.due(listing, lister), listing)
        found = discover(listing, lister, self.procfs, self.host)
        if quick:  # nobody asks
            return _Found(found, listing, due)
        told = waiting_launchers(listing, lister, self.procfs)
        waiting = [missing for pid, missing in told if self._is_ours(None, pid)]
        return _Found(found._replace(missing=(*found.missing, *waiting)), listing, due)

    def _told_of(self, due: list[Stat], listing: Listing) -> list[Stat]:
        """Leave out whom we tell nothing of, but for those above one of ours: a fork has its parent's group as well.

        Whom torchrun gave another number than ours has that number in the world as well.
        """
        ours = {stat.pid for stat in due if self._may_be_ours(stat.pid, listing)}
        wanted = ours.union(*map(listing.ancestors, ours))
        return [stat for stat in due if stat.pid in wanted]

    def _may_be_ours(self, pid: int, listing: Listing) -> bool:
        found = listing.candidates.get(pid)
        numbered = found is not None and found.identity.launcher == _TORCHRUN
        return self._is_ours(found.identity if found is not None and numbered else None, pid)

    def _avoid_the_stuck(self) -> bool:
        """Reading about one process has blocked our thread: leave that process out from now on. Is it known which?

        On a busy machine the thread is only slow, and soon reads about another one: that blames none of them.
        """
        stuck = self._lister.reading
        if stuck is None or stuck in self._blockers:
            return False
        until = time.monotonic() + _SLOW_SECONDS
        while time.monotonic() < until:
            time.sleep(_MOMENT_SECONDS)
            if self._lister.reading != stuck:
                return False
        self._blockers.add(stuck, partial(self._pool.is_stuck, id(self._lister), "find"))
        self._lister = self._lister.successor()
        return True

    def _seen(self, found: FoundRanks, listing: Listing) -> FoundRanks:
        unsearched = self._search.missing(listing)
        found = found._replace(ranks=tuple(r for r in found.ranks if self._is_ours(r.identity, r.stat.pid)))
        exited = tuple(e for e in self.watch.see(found, listing) if self._was_ours(e))
        return found._replace(exited=exited, missing=(*found.missing, *unsearched, *self._missing()))

    def _is_ours(self, identity: Identity | None, pid: int) -> bool:
        if self._users and owner_of(self.procfs, pid) not in self._users:
            return False
        return self._only is None or identity is None or identity.rank in self._only

    def _was_ours(self, gone: Exited) -> bool:
        """Whose it was is known from when it lived: its number may be another process's by now, or nobody's."""
        user = gone.sibling_user if gone.identity is None else gone.identity.user
        number = (user or "").rpartition(".")[2]  # of a pod's the namespace stands before it
        if self._users and (not number.isdecimal() or int(number) not in self._users):
            return False
        return self._only is None or gone.identity is None or gone.identity.rank in self._only

    def _missing(self) -> tuple[Missing, ...]:
        told = "; ".join(map(_in_words, self.avoided()))
        return (Missing(source="ranks", reason=Reason.TIMED_OUT, detail=told),) if told else ()


def _in_words(avoided: Avoided) -> str:
    whose = "of an unknown user" if avoided.user is None else f"of user {avoided.user}"
    pids = ", ".join(map(str, avoided.pids))
    read = f"reading about processes {pids} {whose} blocked; they are left out, or reported as last known"
    if not avoided.wholly:
        return read
    told = read if avoided.pids else f"reading about processes {whose} blocked until a moment ago"
    return f"{told}, and so is whatever else that user starts while they block, and for ten minutes"
