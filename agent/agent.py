"""One agent: finds ranks, looks at them, watches their progress between requests, and keeps the audit log."""

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from agent.deadline import Deadline, ThreadPool
from agent.errors import Gone
from agent.find.choose_ranks import FoundRanks, Rank
from agent.find.process_owner import parse_users
from agent.look.debuggers import DEEP_SECONDS, DeepLooker
from agent.look.digests import Digests
from agent.look.gpu_watch import GpuWatch
from agent.look.looker import Looker
from agent.look.node import Node
from agent.look.node_facts import Surroundings
from agent.look.node_signs import NodeSigns
from agent.look.port_watch import PortWatch
from agent.metrics import Metrics
from agent.proc.procfs import ProcFs
from agent.settings import AgentSettings
from agent.sources.all import make_sources
from agent.sources.gpu import read_gpus
from agent.sources.kernel_log import KernelLog
from agent.sources.kernel_ring import KernelRing
from agent.sources.look_context import LookContext
from agent.sources.ras.monitor import RasMonitor
from agent.sources.ras.ras_source import RasSource, RasTargets, Told
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.source import LookDepth
from agent.tools.memory_budget import Memory
from agent.tools.run_bounded import find_program
from shared.errors import NotFound, NotPermitted, TooBusy, UnhangError
from shared.missing import Missing, Reason
from shared.server.audit import AuditLog
from shared.wire.debug_output import DeepLook, How
from shared.wire.job_names import is_of, was_of
from shared.wire.registration import STILL_SECONDS
from shared.wire.snapshot import Beat, Exited, Identity, NodeSnapshot, RankList, lists_late
from shared.wire.survey_write import WINDOW

_SECONDS_FOR_THE_ANSWER = 0.2
_EVERY_THOROUGH_SEARCH = 3


class RankFilter(NamedTuple):
    """Which ranks of the node a question is about. None and empty: all."""

    job: str | None = None
    pids: tuple[int, ...] = ()
    user: str | None = None
    """Of several users' jobs of that name."""

    def holds(self, rank: Rank) -> bool:
        """Is this rank among them?"""
        of_job = self.job is None or is_of(rank.identity, self.job, self.user)
        return of_job and (not self.pids or rank.stat.pid in self.pids)

    def held(self, gone: Exited) -> bool:
        """Was this one among them, or beside them?"""
        return self.job is None or was_of(gone, self.job, self.user)


class Agent:
    """Everything that one agent owns. Safe to use from many threads."""

    def __init__(self, settings: AgentSettings, procfs: ProcFs | None = None) -> None:
        self.settings = settings
        self.procfs = procfs or ProcFs()
        self._pool = ThreadPool()
        users = parse_users(settings.only_users)
        locator = RecorderLocator()
        self.node = Node(
            self.procfs,
            settings.host,
            self._pool,
            only_ranks=settings.only_ranks,
            only_users=users,
            locator=locator,
        )
        kernel_log, ports, gpus = KernelLog(self.procfs, ring=KernelRing()), PortWatch(), GpuWatch(read_gpus)
        monitors = settings.ras_monitor and settings.ras != "never"
        ras = RasMonitor(self.procfs, settings.host) if monitors else None
        self._signs = NodeSigns(self._pool, kernel_log, ports, gpus, ras=ras)
        self.digests = Digests(self.node.watch, self._signs)
        self.audit = AuditLog(settings.audit_log)
        self.metrics = Metrics(self.node, self.audit)
        py_spy = find_program("py-spy", settings.py_spy)
        memory = Memory()
        sources = make_sources(py_spy, self._pool, memory, pystack=find_program("pystack"), locator=locator)
        self._looker = Looker(sources, self._pool, self)
        self._deep = DeepLooker(self._looker, allowed=settings.debuggers)
        self._ras = RasSource(settings.ras, self._pool, memory)
        self._surroundings = Surroundings(self._pool, kernel_log, gpus.read, ports.read)
        self._stop = threading.Event()
        self._beating: threading.Thread | None = None

    def start(self) -> None:
        """Begin to keep the beat."""
        if self.settings.beat_seconds > 0 and self._beating is None:
            self._beating = threading.Thread(target=self._keep_beat, name="beat", daemon=True)
            self._beating.start()

    def stop(self) -> None:
        """Keep the beat no longer."""
        self._stop.set()
        if self._beating is not None:
            self._beating.join(5.0)
        self._surroundings.kernel_log.close()
        self._signs.close()

    def ranks(self) -> RankList:
        """Say who is on this node, without looking at anyone."""
        found = self.node.find(Deadline(self.settings.look_timeout_seconds))
        identities = tuple(rank.identity for rank in found.ranks)
        return RankList(host=self.node.host, ranks=identities, exited=found.exited, missing=found.missing)

    def snapshot(
        self, choice: RankFilter, question: LookDepth, timeout_seconds: float | None = None, *, ras: bool = False
    ) -> NodeSnapshot:
        """Look at all ranks of the choice. `ras`: ask NCCL RAS, too, which costs the whole job a round of messages."""
        return self._look(choice, question, timeout_seconds, ras=ras)[0]

    def look_briefly(
        self, choice: RankFilter, timeout_seconds: float | None = None, *, ras: bool = False
    ) -> tuple[NodeSnapshot, tuple[Identity, ...]]:
        """Look at a job's ranks as a survey needs it. Returns the ranks of other jobs, too, which are not looked at."""
        snapshot, found = self._look(choice, LookDepth(window=WINDOW, brief=True), timeout_seconds, ras=ras)
        return snapshot, tuple(rank.identity for rank in found.ranks if not choice.holds(rank))

    def _look(
        self, choice: RankFilter, question: LookDepth, timeout_seconds: float | None, *, ras: bool
    ) -> tuple[NodeSnapshot, FoundRanks]:
        taken_at_ns, begun = time.time_ns(), time.monotonic()
        limit = min(timeout_seconds or self.settings.look_timeout_seconds, self.settings.look_timeout_seconds)
        deadline = Deadline(limit).sooner(_SECONDS_FOR_THE_ANSWER)
        found = self.node.find(deadline)
        ranks = [rank for rank in found.ranks if choice.holds(rank)]
        whose = {pid: rank.identity for rank in found.ranks for pid in (rank.stat.pid, *rank.children)}
        context = LookContext(self.procfs, self.node.host, whose)
        asking = None if choice.pids else self._surroundings.begin(deadline)
        snapshots = self._looker.look_at_all(ranks, context, question, deadline)
        exited = tuple(filter(choice.held, found.exited))
        ras_look, unasked = self._ask_ras(RasTargets(ranks, found.ranks, snapshots, exited, ras), context, deadline)
        watch = self.node.watch
        seen = [(*watch.seen_for_seconds(rank.key), watch.marks(rank.key)) for rank in ranks]
        self.metrics.snapshot_taken()
        snapshot = NodeSnapshot(
            **({} if asking is None else asking.told()),
            host=self.node.host,
            taken_at_ns=taken_at_ns,
            whole=not choice.pids,
            took_seconds=round(time.monotonic() - begun, 4),
            ranks=tuple(
                snapshot.model_copy(update={"idle_for_seconds": idle, "watched_for_seconds": watched, "marks": marks})
                for snapshot, (idle, watched, marks) in zip(snapshots, seen, strict=True)
            ),
            exited=exited,
            missing=(*found.missing, *unasked),
            ras=ras_look,
        )
        return snapshot, found

    def _ask_ras(self, visit: RasTargets, context: LookContext, deadline: Deadline) -> Told:
        begun = time.monotonic()
        ras_look, unasked = self._ras.look(visit, context, deadline)
        if visit.ask and (ras_look is not None or unasked):
            reason = unasked[0].reason if unasked else None
            self.metrics.source_done(self._ras.name, time.monotonic() - begun, reason)
        return ras_look, unasked

    def one(self, pid: int, question: LookDepth, timeout_seconds: float | None = None) -> NodeSnapshot:
        """Look at one rank. Raises NotFound when no rank of this node has that process id, or TooBusy."""
        snapshot = self.snapshot(RankFilter(pids=(pid,)), question, timeout_seconds)
        if not snapshot.ranks:
            raise self._no_such_rank(pid, snapshot.missing)
        return snapshot

    def deep(self, pid: int, how: How, seconds: float, child: int | None = None) -> DeepLook:
        """Look closely at one rank or a child of it, for `seconds` where the asker says so. Raises as `one` does."""
        deadline = Deadline(DEEP_SECONDS)
        found = self.node.find(deadline)
        rank = next((rank for rank in found.ranks if rank.stat.pid == pid), None)
        if rank is None:
            raise self._no_such_rank(pid, found.missing)
        context = LookContext(self.procfs, self.node.host)
        return self._deep.look(rank, context, how, child=child, seconds=seconds, deadline=deadline)

    def _no_such_rank(self, pid: int, missing: Iterable[Missing]) -> NotFound | TooBusy:
        """What is to be said where it is not among those that were found, and some may not have been."""
        host, late = self.node.host, next((each for each in missing if lists_late([each])), None)
        if late is not None:
            with suppress(Gone, NotPermitted):
                self.procfs.stat(pid)
                told = f"it is not known whether a rank on {host} has pid {pid}: {late.detail}"
                return TooBusy(told, advice="ask again")
        return NotFound(f"no rank on {host} has pid {pid}", advice="ask GET /v1/ranks who is here")

    def source_done(self, source: str, seconds: float, reason: Reason | None) -> None:
        """Take note of a source's look (look.Observer)."""
        self.metrics.source_done(source, seconds, reason)

    def looked(self, rank: Rank, before: Beat, after: Beat) -> None:
        """Leave our own look out of the watch (look.Observer)."""
        self.node.watch.looked(rank.key, before, after)

    def beat(self, deadline: Deadline) -> None:
        """Take every rank's beat, read what happens to the node beside them, as far as that is due."""
        self.node.beat(deadline)
        living, _ = self.node.watch.progress()
        if living:
            at_work = all(each.still is not None and each.still < STILL_SECONDS for each in living)
            self._signs.beat(deadline, at_work=at_work, ranks=self.node.watch.ranks)

    def _keep_beat(self) -> None:
        searches, next_search, next_beat = 0, 0.0, 0.0
        while not self._stop.is_set():
            limit = Deadline(self.settings.look_timeout_seconds)
            if time.monotonic() >= next_search or self.node.watch.some_have_gone:
                self._search(limit, quick=searches % _EVERY_THOROUGH_SEARCH != 0)
                searches += 1
                next_search = time.monotonic() + self.settings.discover_seconds
            if time.monotonic() >= next_beat:
                self.beat(limit)
                next_beat = time.monotonic() + self.settings.beat_seconds
            self.digests.renew()
            self._stop.wait(max(0.0, min(next_search, next_beat) - time.monotonic()))

    def _search(self, deadline: Deadline, *, quick: bool) -> None:
        """Find new ranks. If that fails, the next search may succeed, and requests are answered with the reason."""
        with suppress(UnhangError, OSError):
            self.node.find(deadline, quick=quick)
