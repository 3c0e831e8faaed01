"""What happens to the node beside its ranks, kept in mind between the beats: kernel lines, ports, GPUs that spin,
and what NCCL's RAS tells.

Each is read in a task of its own: a sick driver or adapter holds up nobody but itself, and is not asked again while it
does. What is telling goes into the digest as a sign.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from agent.deadline import Deadline, ThreadPool
from agent.find.choose_ranks import Rank
from agent.look.gpu_watch import GpuWatch
from agent.look.port_watch import PortWatch
from agent.sources.kernel_log import KernelLog
from agent.sources.ras.monitor import RasMonitor
from shared.wire.devices import Port
from shared.wire.kernel_events import KernelEvent, KernelEventKind, KernelEvents
from shared.wire.registration import MOST_SIGN_NAME, MOST_SIGNS, Sign

SIGN_SECONDS = 300.0
"""How long a sign is told: what it brings about shows within minutes."""
_READ_SECONDS = 1.0
_GPU_SECONDS = 3.5
_PAUSE_SECONDS = 60.0
"""Until what is not there or may not be read is tried again: rights may be given, drivers loaded."""
_SILENT = frozenset({KernelEventKind.LINK_UP, KernelEventKind.STORAGE, KernelEventKind.CRASH})
"""No reason to look: what comes back, what is evidence at most, and what the end of a rank tells by itself."""


class NodeSigns:
    """The node's signs. One caller at a time takes beats; anyone may read them."""

    def __init__(
        self,
        pool: ThreadPool,
        kernel_log: KernelLog,
        ports: PortWatch,
        gpus: GpuWatch,
        clock: Callable[[], float] = time.time,
        *,
        ras: RasMonitor | None = None,
    ) -> None:
        self._pool = pool
        self._kernel_log = kernel_log
        self._ports = ports
        self._gpus = gpus
        self._clock = clock
        self._ras = ras
        self._events: tuple[KernelEvent, ...] = ()
        self._down_since: dict[str, float] = {}
        self._not_before: dict[str, float] = {}

    def beat(self, deadline: Deadline, *, at_work: bool, ranks: Sequence[Rank] = ()) -> None:
        """Read what is due. `at_work`: do the ranks of this node, which are `ranks`, go on?"""
        now = time.monotonic()
        due: dict[str, Callable[[], None]] = {}
        if self._not_before.get("kernel log", 0.0) <= now:
            due["kernel log"] = lambda: self._take_kernel_log(Deadline(_READ_SECONDS))
        if self._ports.is_due and self._not_before.get("ports", 0.0) <= now:
            due["ports"] = self._take_ports
        if self._gpus.is_due(at_work=at_work) and self._not_before.get("gpus", 0.0) <= now:
            due["gpus"] = lambda: self._take_gpus(Deadline(_GPU_SECONDS), at_work=at_work)
        if self._ras is not None and self._not_before.get("ras", 0.0) <= now:
            due["ras"] = partial(self._ras.read, ranks, Deadline(_READ_SECONDS))
        if not due:
            return
        limit = deadline.at_most(_GPU_SECONDS if "gpus" in due else _READ_SECONDS)
        for name, outcome in self._pool.run(due, limit, owner="node signs").items():
            if isinstance(outcome, Exception):
                self._not_before[name] = time.monotonic() + _PAUSE_SECONDS

    def _take_kernel_log(self, deadline: Deadline) -> None:
        found: KernelEvents = self._kernel_log.read(deadline)
        self._events = found.events

    def _take_ports(self) -> None:
        found = self._ports.read()
        now = self._clock()
        down = [port.name for port in found.ports if is_down(port)]
        self._down_since = {name: self._down_since.get(name, now) for name in down}

    def _take_gpus(self, deadline: Deadline, *, at_work: bool) -> None:
        self._gpus.read(deadline, at_work=at_work)

    def close(self) -> None:
        """Hang up."""
        if self._ras is not None:
            self._ras.close()

    @property
    def spinning(self) -> frozenset[int]:
        """Processes whose GPUs only spin."""
        return self._gpus.spinning

    def signs(self) -> tuple[Sign, ...]:
        """Return what has happened lately, newest first; last what a job's RAS says, which it may make up."""
        now = self._clock()
        found = [*self._of_kernel(now), *_of_ports(self._down_since, now)]
        first = {(sign.kind, sign.name): sign for sign in sorted(found, key=lambda sign: -sign.age)}
        own = sorted(first.values(), key=lambda sign: (sign.age, sign.kind, sign.name))
        dead = {} if self._ras is None else self._ras.dead
        told = [_sign("peer_dead", who, now - since) for who, since in dead.items() if now - since <= SIGN_SECONDS]
        return (*own, *told)[:MOST_SIGNS]

    def _of_kernel(self, now: float) -> Iterable[Sign]:
        for event in self._events:
            if event.kind in _SILENT or event.last_at is None or now - event.last_at > SIGN_SECONDS:
                continue
            about = event.interface or event.device or ""
            yield _sign(event.kind.value, about, now - event.last_at)


def is_down(port: Port) -> bool:
    """Has the port gone down while the agent watched? One that nobody uses has always been down."""
    return port.up is False and bool(port.went_down)


def _of_ports(down_since: dict[str, float], now: float) -> Iterable[Sign]:
    for name, since in down_since.items():
        if now - since <= SIGN_SECONDS:
            yield _sign("port_down", name, now - since)


def _sign(kind: str, name: str, age: float) -> Sign:
    shown = name[:MOST_SIGN_NAME] if name.isascii() and name.isprintable() else ""
    return Sign(kind=kind, name=shown, age=round(max(0.0, age), 1))
