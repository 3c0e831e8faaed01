"""What kernel log, GPUs and ports of each node tell of one job: of its time there, without what healthy nodes print.

1. Of each node the newest look counts; older ones hold nothing that it lacks.
2. What the kernel told before the job's first process began there belongs to somebody else, and so does what tells no
   time, unless it names a process of the job.
3. What more than half of at least three nodes tell is no node's own fault: it accuses nobody. A file server that does
   not answer is common to all, and is kept.
4. The kernel's out-of-memory killer and its crash lines name processes, launchers name exit codes: so ranks ended.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from collector.align.roster import Presence, RankView, Roster
from collector.align.thresholds import KERNEL_CLOCK_SECONDS, LEAST_NODES
from collector.align.xids import Blame, blame_of
from shared.isolation import costs_itself
from shared.plural import counted
from shared.wire.devices import Gpu, Gpus, Port, Ports
from shared.wire.kernel_events import KernelEvent, KernelEventKind, KernelEvents
from shared.wire.log_events import Logs
from shared.wire.snapshot import Exited, NodeSnapshot

_COMMON = frozenset(
    {KernelEventKind.STORAGE, KernelEventKind.HUNG_TASK, KernelEventKind.OOM_KILL, KernelEventKind.CRASH}
)
"""Kinds that tell of single processes or of what nodes share: never noise for being told everywhere."""


@dataclass(frozen=True)
class NodeFacts:
    """One node: what its kernel told during the job, its GPUs and its network ports."""

    host: str
    events: tuple[KernelEvent, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    ports: tuple[Port, ...] = ()

    def gpus_of(self, pids: Iterable[int]) -> tuple[Gpu, ...]:
        """Return the GPUs that some processes compute on."""
        wanted = set(pids)
        return tuple(gpu for gpu in self.gpus if any(process.pid in wanted for process in gpu.processes))


@costs_itself(lambda snapshots, roster: {})
def node_facts(snapshots: Sequence[NodeSnapshot], roster: Roster) -> dict[str, NodeFacts]:
    """Return what is known of each node that tells anything, by host."""
    events: dict[str, tuple[KernelEvent, ...]] = {}
    gpus: dict[str, tuple[Gpu, ...]] = {}
    ports: dict[str, tuple[Port, ...]] = {}
    begun = _begun(roster)
    for snapshot in sorted(snapshots, key=lambda each: (each.taken_at_ns or 0, repr(each.host))):  # 1
        host = snapshot.host
        if host is None or host not in begun:
            continue
        if isinstance(snapshot.kernel_events, KernelEvents):
            told = snapshot.kernel_events.events
            events[host] = tuple(e for e in told if _may_be_of_job(e, begun[host]))  # 2
        if isinstance(snapshot.gpus, Gpus):
            gpus[host] = snapshot.gpus.gpus
        if isinstance(snapshot.ports, Ports):
            ports[host] = snapshot.ports.ports
    events = _without_noise(_without_strangers(events, roster))  # 2, 3
    hosts = sorted(events.keys() | gpus.keys() | ports.keys())
    return {host: NodeFacts(host, events.get(host, ()), gpus.get(host, ()), ports.get(host, ())) for host in hosts}


def _last_told(event: KernelEvent) -> float | None:
    """When the kernel told it last, in Unix seconds."""
    return event.last_at if event.last_at is not None else event.at


def _begun(roster: Roster) -> dict[str, float]:
    """When the job's first process began on each node, in Unix seconds."""
    begun: dict[str, float] = {}
    for view in roster.ranks.values():
        identity = view.identity
        if view.host is not None and identity is not None and identity.started_at is not None:
            begun[view.host] = min(begun.get(view.host, identity.started_at), identity.started_at)
    return begun


def _pids(roster: Roster, *, of: Collection[str]) -> dict[str, set[int]]:
    """The processes of the job's ranks on some nodes."""
    return {host: {pid for view in roster.by_host[host] for pid in pids_of(view)} for host in of}


def _may_be_of_job(event: KernelEvent, begun: float) -> bool:
    last = _last_told(event)
    return last is None or last >= begun - KERNEL_CLOCK_SECONDS


def _without_strangers(
    events: Mapping[str, tuple[KernelEvent, ...]], roster: Roster
) -> dict[str, tuple[KernelEvent, ...]]:
    """Leave out what tells no time and names no process of the job."""
    pids = _pids(roster, of={host for host, mine in events.items() if None in map(_last_told, mine)})
    return {
        host: tuple(e for e in mine if _last_told(e) is not None or e.pid in pids[host]) if host in pids else mine
        for host, mine in events.items()
    }


def _without_noise(events: Mapping[str, tuple[KernelEvent, ...]]) -> dict[str, tuple[KernelEvent, ...]]:
    told: dict[tuple[KernelEventKind, int | None], set[str]] = defaultdict(set)
    for host, mine in events.items():
        for event in mine:
            told[event.kind, event.code].add(host)
    many = len(events) / 2 if len(events) >= LEAST_NODES else float("inf")
    noise = {key for key, hosts in told.items() if len(hosts) > many and key[0] not in _COMMON}
    return {host: tuple(e for e in mine if (e.kind, e.code) not in noise) for host, mine in events.items()}


def concerns(event: KernelEvent, view: RankView, facts: NodeFacts) -> bool:
    """Is a line of the kernel about this rank: its process, a child of it, or a GPU that it computes on?"""
    pids = pids_of(view)
    started = None if view.identity is None else view.identity.started_at
    if event.pid is not None:
        younger = started is not None and event.at is not None and event.at < started - KERNEL_CLOCK_SECONDS
        return event.pid in pids and not younger
    if event.device is None:
        return False
    return any(is_device(gpu, event.device) for gpu in facts.gpus_of(pids))


def is_device(gpu: Gpu, device: str) -> bool:
    """Is it the GPU at a PCI address? The driver's own lines leave out the function."""
    return gpu.device is not None and gpu.device.partition(".")[0] == device.partition(".")[0]


def pids_of(view: RankView) -> frozenset[int]:
    """Return the processes of a rank, its children included."""
    pids = {child.process.pid for look in view.looks for child in look.children}
    if view.identity is not None and view.identity.pid is not None:
        pids.add(view.identity.pid)
    if view.exited is not None:
        pids.add(view.exited.pid)
    return frozenset(pids)


def breaks_device(event: KernelEvent) -> bool:
    """Does a line say that a GPU is broken?"""
    if event.kind is KernelEventKind.XID:
        return blame_of(event.code) in (Blame.DEVICE, Blame.LINK)
    return event.kind in (KernelEventKind.SXID, KernelEventKind.GPU_DRIVER, KernelEventKind.PCIE_ERROR)


def breaks_network(event: KernelEvent, events: Iterable[KernelEvent]) -> bool:
    """Does a line say that a network adapter is broken, or its link down and not up again?"""
    if event.kind is KernelEventKind.NIC_ERROR:
        return True
    if event.kind is not KernelEventKind.LINK_DOWN:
        return False
    ups = (e.last_at or 0.0 for e in events if e.kind is KernelEventKind.LINK_UP and e.interface == event.interface)
    return max(ups, default=-1.0) < (event.last_at or 0.0)


def gpu_trouble(gpu: Gpu) -> str | None:
    """Say what is wrong with a GPU; None where nothing is. Clocks that are held down make slow, not stuck."""
    if gpu.fault is not None:
        return f"the driver says: {gpu.fault}"
    if gpu.rows_failed:
        return "a memory row could not be remapped"
    if gpu.ecc_uncorrected:
        return counted(gpu.ecc_uncorrected, "uncorrectable memory error")
    if gpu.nvlinks_down and gpu.nvlinks_up:
        return f"{gpu.nvlinks_down} of {gpu.nvlinks_down + gpu.nvlinks_up} NVLinks are down"
    return None


@costs_itself(lambda roster, nodes: roster)
def with_endings(roster: Roster, nodes: Mapping[str, NodeFacts]) -> Roster:
    """4. Return the roster with how its ranks ended, where its agents did not see that."""
    told = {view.rank: _ending(view, roster, nodes) for view in roster.gone() if view.presence is Presence.EXITED}
    changed = {rank: replace(roster.ranks[rank], exited=exited) for rank, exited in told.items() if exited is not None}
    return replace(roster, ranks=roster.ranks.with_changed(changed)) if changed else roster


def _ending(view: RankView, roster: Roster, nodes: Mapping[str, NodeFacts]) -> Exited | None:
    exited = view.exited
    if exited is None:
        return None
    facts = nodes.get(view.host or "")
    events = [] if facts is None else [e for e in facts.events if e.pid == exited.pid and concerns(e, view, facts)]
    update: dict[str, object] = {}
    if any(event.kind is KernelEventKind.OOM_KILL for event in events):
        update = {"oom_killed": True, "signal": 9}
    elif exited.signal is None and exited.exit_code is None:
        code = _logged_exit_code(exited.pid, view.host, roster)
        update = {} if code is None else {"signal": -code} if code < 0 else {"exit_code": code}
    return exited.model_copy(update=update) if update else None


def _logged_exit_code(pid: int, host: str | None, roster: Roster) -> int | None:
    """What the launcher wrote of it: `failed (exitcode: -9) local_rank: 2 (pid: 4245)` in a log of the same node."""
    logs = (look.logs for view in roster.by_host[host] for look in view.looks if isinstance(look.logs, Logs))
    for event in (event for log in logs for event in log.events if event.fields.get("pid") == str(pid)):
        code = event.fields.get("exit_code", "")
        if code.removeprefix("-").isdecimal() and len(code) < 6:
            return int(code)
    return None
