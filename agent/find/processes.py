"""One listing of all processes: who is whose parent, and which environments mark a rank."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

from agent.errors import Gone
from agent.find.blockers import Blockers
from agent.find.environment import PYTHON, Environment, Environments, key_of
from agent.find.launchers import NAMES, is_launcher, mistaken
from agent.find.other_worlds import World
from agent.find.process_owner import UserNames, user_of
from agent.find.rank_identity import identity_of
from agent.find.torch_stores import TorchGroup
from agent.proc.credentials import has_borrowed_rights
from agent.proc.procfs import ProcFs, Stat
from agent.tools.thin_parent import own_pids
from shared.errors import NotPermitted
from shared.rules.site_rules import checked_variables
from shared.wire.snapshot import Identity

_PARALLEL = (b"/libtorch", b"/jaxlib/", b"/libmpi.so")


class RankLikelihood(IntEnum):
    """What a process runs, the likelier a rank the higher."""

    OTHER = 0
    PYTHON = 1
    PARALLEL = 2
    """PyTorch, JAX or MPI."""


class Candidate(NamedTuple):
    """A process that has a process group, or whose environment says that it is, or belongs to, a rank."""

    stat: Stat
    identity: Identity
    environment: Environment
    is_launcher: bool
    has_group: bool = False
    """Is it known to have a process group, so that it is a rank whatever else it does?"""


class Listing(NamedTuple):
    """All processes at one moment."""

    stats: dict[int, Stat]
    candidates: dict[int, Candidate]
    unreadable: tuple[int, ...]
    """Processes whose environment we are not allowed to read."""
    mistaken: tuple[tuple[int, str], ...] = ()
    """Processes whose environment gives them a rank, or a number of ranks, that is none, and what it is."""
    lost: tuple[int, ...] = ()
    """Processes that live, and whose variables lie in memory that nobody can read, as in a file that failed."""

    def ancestors(self, pid: int) -> Iterator[int]:
        """Iterate over the parents of a process, the nearest first."""
        seen = {pid}
        while (found := self.stats.get(pid)) is not None and found.parent_pid not in seen:
            pid = found.parent_pid
            seen.add(pid)
            yield pid

    def children(self) -> dict[int, list[int]]:
        """Return the children of every process that has any."""
        families: dict[int, list[int]] = {}
        for stat in self.stats.values():
            families.setdefault(stat.parent_pid, []).append(stat.pid)
        return families


class Lister:
    """Lists processes. `reading` is the process being read now, for whoever watches over a slow listing."""

    def __init__(self, procfs: ProcFs, *, own_pid: int | None = None, blockers: Blockers | None = None) -> None:
        self._procfs = procfs
        self._blockers = blockers or Blockers(procfs)
        self.own_pid = os.getpid() if own_pid is None else own_pid
        self._names = UserNames()
        self._own = own_pids() | {self.own_pid}
        self._environments = Environments(procfs, NAMES | checked_variables())
        self._parallel: set[tuple[int, int]] = set()
        self._others: dict[tuple[int, int, int], tuple[int, RankLikelihood]] = {}
        self._known: dict[tuple[int, int], Candidate] = {}
        self._mistaken: dict[int, str] = {}
        self._dull: dict[int, Stat] = {}
        self._groups: Mapping[tuple[int, int], TorchGroup | World] = {}
        self.reading: tuple[int, int] | None = None

    def listing(
        self,
        *,
        quick: bool = False,
        groups: Mapping[tuple[int, int], TorchGroup | World] | None = None,
    ) -> Listing:
        """List all processes; those that are avoided and those in state D keep what is known of them.

        `groups`: the process groups that were found in the memory of processes.

        Reading the memory or environment of a process blocked in the kernel may block the reader as well.
        A `quick` listing takes for granted that what was no rank and runs no Python is still there, unchanged.
        """
        self._groups = groups or {}
        self._mistaken = {}
        stats = dict(self._stats(self._dull if quick else {}))
        candidates, unreadable, lost = {}, [], []
        for stat in stats.values():
            if stat.pid in self._own or stat.state in "ZX" or self._is_dull(stat):
                continue
            try:
                found = self._candidate(stat)
            except NotPermitted:
                unreadable.append(stat.pid)
            except Gone:
                if self._lives(stat):
                    lost.append(stat.pid)
            else:
                if found is not None:
                    candidates[stat.pid] = found
        self._remember(stats, candidates)
        return Listing(stats, candidates, tuple(unreadable), tuple(self._mistaken.items()), tuple(lost))

    def successor(self) -> "Lister":
        """Return a lister that knows what this one knows, for when a thread is stuck in this one."""
        heir = Lister(self._procfs, own_pid=self.own_pid, blockers=self._blockers)
        heir._known, heir._parallel = dict(self._known), set(self._parallel)
        return heir

    def runs(self, stat: Stat) -> "RankLikelihood":
        """Return what runs in this process, by what it has mapped, else by its program's name.

        Listing what is mapped is dear, and a process that has as much mapped as before has loaded none since.
        """
        key = stat.key
        if key in self._parallel:
            return RankLikelihood.PARALLEL
        size, likelihood = self._others.get(key_of(stat), (0, RankLikelihood.OTHER))
        if size == stat.virtual_bytes != 0:
            return likelihood
        if self._blockers.is_avoided(stat):
            return RankLikelihood.PYTHON if PYTHON.match(stat.name) else RankLikelihood.OTHER
        outer, self.reading = self.reading, key
        try:
            likelihood = self._mapped(stat)
        finally:
            self.reading = outer
        if likelihood is RankLikelihood.PARALLEL:
            self._parallel.add(key)
        else:
            self._others[key_of(stat)] = stat.virtual_bytes, likelihood
        return likelihood

    def _mapped(self, stat: Stat) -> "RankLikelihood":
        try:
            maps = self._procfs.maps(stat.pid)
            name = self._procfs.link(stat.pid, "exe").rpartition("/")[2]
        except (Gone, NotPermitted):
            maps, name = b"", stat.name
        if any(library in maps for library in _PARALLEL):
            return RankLikelihood.PARALLEL
        return RankLikelihood.PYTHON if b"/libpython" in maps or PYTHON.match(name) else RankLikelihood.OTHER

    def parallel(self, listing: Listing) -> Iterator[Stat]:
        """Iterate over the processes that have PyTorch, JAX or MPI loaded, but for us and who cannot be read."""
        unreadable = set(listing.unreadable)
        for stat in listing.stats.values():
            if stat.pid in self._own or stat.state in "DZX" or stat.pid in unreadable or self._is_dull(stat):
                continue
            self.reading = stat.key
            try:
                if not self._blockers.is_avoided(stat) and self.runs(stat) is RankLikelihood.PARALLEL:
                    yield stat
            finally:
                self.reading = None

    def _stats(self, known: dict[int, Stat]) -> Iterator[tuple[int, Stat]]:
        for pid in self._procfs.pids():
            try:
                yield pid, known[pid] if pid in known else self._procfs.stat(pid)
            except (Gone, NotPermitted):
                continue

    def _lives(self, stat: Stat) -> bool:
        with suppress(Gone, NotPermitted):
            now = self._procfs.stat(stat.pid)
            return now.start_ticks == stat.start_ticks and now.state not in "ZX"
        return False

    def _candidate(self, stat: Stat) -> Candidate | None:
        key = stat.key
        known = self._known.get(key)
        if (stat.state == "D" and known is not None) or self._blockers.is_avoided(stat):
            return known if known is None else known._replace(stat=stat)
        self.reading = key
        try:
            environment = self._environments.read(stat)
            group = self._groups.get(key)
            identity = identity_of(environment, group)
            wrong = mistaken(environment) if group is None else None
            if wrong is not None:
                self._mistaken[stat.pid] = wrong
            if identity is None or has_borrowed_rights(self._procfs, stat.pid):
                return None
            user = user_of(self._procfs, stat.pid)
            owned = identity.model_copy(update={"user": user, "owner": self._names.name_of(user)})
            launches = group is None and is_launcher(self._arguments(stat.pid))
            return Candidate(stat, owned, environment, launches, group is not None)
        finally:
            self.reading = None

    def arguments(self, stat: Stat) -> list[str]:
        """Return the command line of any process; none of one that ended, or is blocked in the kernel."""
        key = stat.key
        if stat.state in "DZX" or self._blockers.is_avoided(stat):
            return []
        self.reading = key
        try:
            return self._arguments(stat.pid)
        except (Gone, NotPermitted):
            return []
        finally:
            self.reading = None

    def _arguments(self, pid: int) -> list[str]:
        return self._procfs.text(pid, "cmdline", most=8192).split("\0")

    def _is_dull(self, stat: Stat) -> bool:
        """Is this one that will never be a rank: of the kernel, or without Python and without the variables?"""
        return stat.is_kernel_thread or (self._environments.is_fixed(stat) and stat.pid in self._dull)

    def _remember(self, stats: dict[int, Stat], candidates: dict[int, Candidate]) -> None:
        self._parallel &= {stat.key for stat in stats.values()}
        self._known = {c.stat.key: c for c in candidates.values()}
        living = {key_of(stat) for stat in stats.values()}
        self._others = {key: known for key, known in self._others.items() if key in living}
        self._environments.forget_all_but(living)
        self._dull = {
            stat.pid: stat
            for stat in stats.values()
            if stat.is_kernel_thread or (stat.pid not in candidates and self._environments.is_fixed(stat))
        }
