"""Decides in whose memory process groups are looked for, and when again; remembers what was found.

1. Asked are processes that have PyTorch, JAX or MPI loaded, once they show a sign of a process group: a thread of
   PyTorch's own (`pt_gloo_runloop`, `pt_nccl_watchdg`), or of TensorPipe's, or a socket, without which no ranks meet.
2. A fork of a rank has its parent's memory, and in it its parent's group: a DataLoader's worker is not searched, nor
   is the fork of a process that could not be searched yet. Parents come before their children. But one in which threads
   of a process group run, which no fork inherits, has a group of its own: rank 0 may have forked the others.
3. Where there was no group, the next search waits for a new sign. New threads of PyTorch's are searched for at once;
   sockets come and go for other reasons, so that each time that nothing was found the next one waits longer.
   One that has threads of TensorPipe's and none of a group is not searched: a known place tells of its agent for calls.
4. A process without a group that hosts a store may be waiting in it for the other ranks, as rank 0.
5. Where threads of a group run and none was found in time, it is not known whether there is one: it is searched again,
   at once and then ever later.
6. Where there was one, it is looked at again with a few small reads: a worker of Ray's joins one group after another.
   A process that has left its group remains the rank that it was.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.blockers import Blockers, Key
from agent.find.launchers import is_launcher
from agent.find.other_worlds import World, find_world
from agent.find.processes import Lister, Listing
from agent.find.torch_groups import find_called, find_group, is_still_there
from agent.find.torch_stores import TorchGroup
from agent.proc.memory.mappings import read_mappings
from agent.proc.memory.process_memory import open_memory
from agent.proc.procfs import FEW_THREADS, ProcFs, Stat
from agent.proc.socket_tables import sockets_of
from shared.errors import NotPermitted
from shared.missing import Missing, Reason
from shared.plural import counted

_MOST_BYTES = 32 * 1024 * 1024 * 1024
"""Of one search. The world's group is among the first objects of the heap; in practice the deadline comes sooner."""
_MOST_SHOWN = 8
_LEAST_SHARE = 20
"""A search because of a new socket waits for so many times the seconds that the last one took..."""
_MOST_DOUBLINGS = 6
"""...and for twice as many each time that nothing was found, so often."""

_CALL_THREADS = "TP_"
"""How names of TensorPipe's threads begin, by which remote calls go."""
_OF_GROUPS = ("pt_gloo_", "pt_nccl_")
_GROUP_THREADS = (*_OF_GROUPS, _CALL_THREADS)
"""How names of threads begin that each process has of which a group, or an agent for calls, was made in it."""
_STORE_THREAD = "pt_tcpstore"
"""How a thread's name begins that serves a store to other ranks; before PyTorch 2.5 threads have no names."""


@dataclass(frozen=True)
class _Searched:
    """What was found in one process, and the signs that it showed then."""

    group: TorchGroup | World | None
    threads: frozenset[str]
    sockets: frozenset[int]
    next_at: float
    fruitless: int


class _Late(NamedTuple):
    """A search that was not done in time: how often, and from when on it is tried again."""

    times: int
    next_at: float


def _later(before: _Late | None, took: float) -> _Late:
    times = 1 if before is None else before.times + 1
    wait = took * _LEAST_SHARE * 2 ** min(times - 2, _MOST_DOUBLINGS) if times > 1 else 0.0
    return _Late(times, time.monotonic() + wait)


class GroupSearch:
    """Searches, one caller at a time. `reading` is the process being read now, for whoever watches over a search."""

    def __init__(self, procfs: ProcFs, blockers: Blockers | None = None) -> None:
        self._procfs = procfs
        self._blockers = blockers or Blockers(procfs)
        self._known: dict[Key, _Searched] = {}
        self._forbidden: dict[Key, Stat] = {}
        self._unfinished: dict[Key, Stat] = {}
        self._late: dict[Key, _Late] = {}
        self._forked_from: dict[Key, Key] = {}
        self._blocked: frozenset[Key] = frozenset()
        self.reading: Key | None = None

    @property
    def groups(self) -> Mapping[Key, TorchGroup | World]:
        """The group of each process that has one, or waits for one, by process id and start."""
        return {key: known.group for key, known in dict(self._known).items() if known.group is not None}

    def successor(self) -> "GroupSearch":
        """Return a search that knows what this one knows, for when a thread is stuck in this one."""
        heir = GroupSearch(self._procfs, self._blockers)
        heir._known, heir._forbidden = dict(self._known), dict(self._forbidden)
        return heir

    def due(self, listing: Listing, lister: Lister) -> list[Stat]:
        """Return who is to be searched now: those without a launcher's variables first, and of these those
        in which a group's threads run: who only has a socket is searched to the end for nothing. Forgets who has gone.
        """
        living = {stat.key for stat in listing.stats.values()}
        self._known = {key: known for key, known in self._known.items() if key in living}
        self._forbidden = {key: stat for key, stat in self._forbidden.items() if key in living}
        self._late = {key: late for key, late in self._late.items() if key in living}
        if not self._procfs.is_real:
            return []
        self._forked_from = dict(_forks(listing))
        self._blocked = frozenset(stat.key for stat in listing.stats.values() if stat.state == "D")
        found = [
            stat for stat in lister.parallel(listing) if self._is_due(stat) and not is_launcher(lister.arguments(stat))
        ]
        open_still = {stat.key for stat in found} | self._late.keys()
        self._unfinished = {key: stat for key, stat in self._unfinished.items() if key in open_still}
        sure = self._surely_ranks(found)
        return sorted(found, key=lambda stat: (stat.pid in listing.candidates, stat.key not in sure, *_age(stat)))

    def _surely_ranks(self, stats: Sequence[Stat]) -> set[Key]:
        """Return those in which a group's threads run, and whom they were forked from, who is searched before them."""
        sure: set[Key] = set()
        for stat in stats:
            key = stat.key if self._runs_group(stat) else None
            while key is not None and key not in sure:
                sure.add(key)
                key = self._forked_from.get(key)
        return sure

    def expect(self, stats: Sequence[Stat]) -> None:
        """Note that these are to be searched: on a busy machine the search itself may begin too late to say so."""
        self._unfinished = {stat.key: stat for stat in stats}

    def search(self, stats: Sequence[Stat], deadline: Deadline) -> None:
        """Search these processes until the deadline."""
        for stat in stats:
            if deadline.left() <= 0:
                return
            begun, self.reading = time.monotonic(), stat.key
            try:
                if not self._is_copy(stat):
                    self._search(stat, deadline)
            except Gone:
                self._known.pop(stat.key, None)
            except NotPermitted:
                self._forbidden[stat.key] = stat
            except Unavailable:
                self._late[stat.key] = _later(self._late.get(stat.key), time.monotonic() - begun)
                continue
            finally:
                self.reading = None
            self._late.pop(stat.key, None)
            self._unfinished.pop(stat.key, None)

    def missing(self, listing: Listing) -> tuple[Missing, ...]:
        """Tell of processes of which it is not known whether they are ranks."""
        return (
            *_told(
                [stat for stat in self._forbidden.values() if stat.pid not in listing.candidates],
                Reason.NOT_PERMITTED,
                "not allowed to read the memory of {} with PyTorch, JAX or MPI, and no launcher's variable says "
                "whether they are ranks; run as root, with CAP_SYS_PTRACE, or as the job's user where "
                "kernel.yama.ptrace_scope is 0",
            ),
            *_told(
                [stat for stat in self._unfinished.values() if stat.pid not in listing.candidates],
                Reason.TIMED_OUT,
                "the memory of {} with PyTorch, JAX or MPI was not searched for process groups in time; ask again",
            ),
        )

    def _is_due(self, stat: Stat) -> bool:
        key = stat.key
        if key in self._forbidden or self._blockers.is_avoided(stat) or self._is_copy(stat):
            return False
        if key in self._late and time.monotonic() < self._late[key].next_at:
            return False
        known = self._known.get(key)
        try:
            if known is not None and known.group is not None:
                if self._is_still_there(stat, known.group):
                    return False
                if known.group.is_awaited:
                    return True
            threads, sockets = self._signs(stat)
        except (Gone, NotPermitted, Unavailable):
            return False
        if known is None:
            return bool(threads or sockets)
        return bool(threads - known.threads) or (bool(sockets - known.sockets) and time.monotonic() >= known.next_at)

    def _is_copy(self, stat: Stat) -> bool:
        """Step 2. Who could not be searched yet may be a rank as well."""
        above = self._searched_above(stat)
        if isinstance(above, _Searched):
            is_rank = above.group is not None and not above.group.is_awaited
            return is_rank and not self._runs_group(stat)
        return above

    def _searched_above(self, stat: Stat) -> _Searched | bool:
        """Return what is known of the process that this one was forked from, the nearest first; True: not yet anything,
        False: there is none.
        """
        above = self._forked_from.get(stat.key)
        while above is not None:
            if any(above in some for some in (self._blocked, self._blockers, self._forbidden, self._unfinished)):
                return True
            known = self._known.get(above)
            if known is not None:
                return known
            above = self._forked_from.get(above)
        return False

    def _runs_group(self, stat: Stat) -> bool:
        """Do threads of a process group run in it?"""
        if stat.threads < 2:
            return False
        try:
            return any(thread.startswith(_GROUP_THREADS) for thread in self._threads(stat))
        except (Gone, NotPermitted):
            return False

    def _is_still_there(self, stat: Stat, group: TorchGroup | World) -> bool:
        if isinstance(group, World):  # it is made once
            return True
        with open_memory(self._procfs, stat, Deadline(1.0)) as memory:
            return is_still_there(memory, group)

    def _signs(self, stat: Stat) -> tuple[frozenset[str], frozenset[int]]:
        """Return the threads of PyTorch's own, and the sockets."""
        threads = self._threads(stat)
        return threads, frozenset(sockets_of(self._procfs, stat.pid))

    def _threads(self, stat: Stat) -> frozenset[str]:
        """Return the threads of PyTorch's own, each with its id."""
        threads = set()
        for tid in self._procfs.tids(stat.pid, FEW_THREADS):
            name = self._procfs.text(stat.pid, f"task/{tid}/comm", most=64)
            if name.startswith(("pt_", _CALL_THREADS)):
                threads.add(f"{name} {tid}")
        return frozenset(threads)

    def _search(self, stat: Stat, deadline: Deadline) -> None:
        begun, before = time.monotonic(), self._known.get(stat.key)
        threads, sockets = self._signs(stat)
        with open_memory(self._procfs, stat, deadline, most_bytes=_MOST_BYTES) as memory:
            regions = read_mappings(self._procfs, stat.pid)
            above = self._searched_above(stat)
            copied = above.group if isinstance(above, _Searched) and isinstance(above.group, TorchGroup) else None
            group: TorchGroup | World | None = find_called(memory, regions) if _only_calls(threads) else None
            group = None if group == copied else group
            if group is None:
                may_wait = not threads or any(thread.startswith(_STORE_THREAD) for thread in threads)
                surely = any(thread.startswith(_OF_GROUPS) for thread in threads)
                group = find_group(self._procfs, memory, regions, copied=copied, or_awaited=may_wait, surely=surely)
            if group is None:
                group = find_world(memory, regions)
        now = time.monotonic()
        fruitless = 0 if group is not None or before is None else before.fruitless + 1
        if group is None and before is not None and before.group is not None and not before.group.is_awaited:
            group = before.group
        wait = (now - begun) * _LEAST_SHARE * 2 ** min(fruitless, _MOST_DOUBLINGS)
        self._known[stat.key] = _Searched(group, threads, sockets, now + wait, fruitless)


def _only_calls(threads: frozenset[str]) -> bool:
    names = [thread for thread in threads if thread.startswith(_GROUP_THREADS)]
    return bool(names) and all(name.startswith(_CALL_THREADS) for name in names)


def _age(stat: Stat) -> tuple[int, int]:
    return stat.start_ticks, stat.pid


def _key(stat: Stat) -> Key:
    return stat.pid, stat.start_ticks


def _forks(listing: Listing) -> Iterator[tuple[Key, Key]]:
    """Iterate over forks with their parents: what executes a program gets a stack at another place."""
    for stat in listing.stats.values():
        above = listing.stats.get(stat.parent_pid)
        if above is not None and above.stack_address == stat.stack_address != 0:
            yield stat.key, above.key


def _told(stats: list[Stat], reason: Reason, text: str) -> tuple[Missing, ...]:
    if not stats:
        return ()
    pids = ", ".join(str(stat.pid) for stat in stats[:_MOST_SHOWN]) + (" …" if stats[_MOST_SHOWN:] else "")
    many = f"{counted(len(stats), 'process')} (pids {pids})"
    return (Missing(source="ranks", reason=reason, detail=text.format(many)),)
