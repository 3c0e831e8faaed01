"""What an agent remembers of the node's GPUs: the power that each usually draws at work, and which of them only spin.

A kernel of NCCL that waits for a peer keeps its GPU at full utilization, at a fraction of the power of one that
computes. Asking the driver costs a process of its own each time (`agent/sources/gpu.py`), so it is asked seldom.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from agent.deadline import Deadline
from shared.wire.devices import Gpu, Gpus

READ_SECONDS = 120.0
"""Between two readings while ranks go on …"""
STILL_READ_SECONDS = 30.0
"""… and while some stand still, but for the first readings only."""
_MOST_WHILE_STILL = 4
_MOST_KEPT = 32
_LEAST_KEPT = 3
"""Readings at work that make a usual power."""
_AT_WORK_PERCENT = 50
_SPINS_PERCENT = 95
_SPINS_POWER_SHARE = 0.6
"""Of the usual power, below which a GPU that is fully used computes nothing: of 700 W NCCL's waiting kernels take
some 150 to 250."""
_MOVES_BYTES_PER_SECOND = 1 << 20
_COUNTS_SECONDS = 150.0
"""How long a reading tells of the present."""


@dataclass(frozen=True)
class _Before:
    at: float
    nvlink_bytes: int | None


class GpuWatch:
    """Reads GPUs, and compares with what they did before. Safe from many threads."""

    def __init__(self, read: Callable[[Deadline], Gpus], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = read
        self._clock = clock
        self._lock = threading.Lock()
        self._power: dict[str, deque[float]] = {}
        self._before: dict[str, _Before] = {}
        self._spinning: frozenset[int] = frozenset()
        self._read_at: float | None = None
        self._while_still = 0

    def read(self, deadline: Deadline, *, at_work: bool = False) -> Gpus:
        """Ask the driver. `at_work`: do the ranks go on? Raises Unavailable, as `read_gpus`."""
        with self._lock:
            self._read_at = self._clock()
            self._while_still = 0 if at_work else self._while_still + 1
            self._spinning = frozenset()
        found = self._ask(deadline)
        with self._lock:
            gpus = tuple(self._taken(gpu, at_work=at_work) for gpu in found.gpus)
            self._spinning = frozenset(p.pid for gpu in gpus if gpu.spins for p in gpu.processes)
        return found.model_copy(update={"gpus": gpus})

    def is_due(self, *, at_work: bool) -> bool:
        """Is it time to ask again?"""
        with self._lock:
            soon = not at_work and self._while_still < _MOST_WHILE_STILL
            pause = STILL_READ_SECONDS if soon else READ_SECONDS
            return self._read_at is None or self._clock() - self._read_at >= pause

    @property
    def spinning(self) -> frozenset[int]:
        """The processes whose GPUs are fully used and compute nothing, as far as that was seen lately."""
        with self._lock:
            lately = self._read_at is not None and self._clock() - self._read_at <= _COUNTS_SECONDS
            return self._spinning if lately else frozenset()

    def _taken(self, gpu: Gpu, *, at_work: bool) -> Gpu:
        key = gpu.uuid or str(gpu.index)
        power = self._power.setdefault(key, deque(maxlen=_MOST_KEPT))
        usual = median(power) if len(power) >= _LEAST_KEPT else None
        moves = self._moves(key, gpu)
        if at_work and gpu.power_watts is not None and (gpu.utilization_percent or 0) >= _AT_WORK_PERCENT:
            power.append(gpu.power_watts)
        spins = None if usual is None or gpu.power_watts is None else _spins(gpu, usual) and not moves
        usual = None if usual is None else round(usual, 1)
        return gpu.model_copy(update={"usual_power_watts": usual, "spins": spins, "nvlink_moves": moves})

    def _moves(self, key: str, gpu: Gpu) -> bool | None:
        now, before = self._clock(), self._before.get(key)
        self._before[key] = _Before(now, gpu.nvlink_bytes)
        if before is None or before.nvlink_bytes is None or gpu.nvlink_bytes is None or now - before.at < 1.0:
            return None
        return (gpu.nvlink_bytes - before.nvlink_bytes) / (now - before.at) >= _MOVES_BYTES_PER_SECOND


def _spins(gpu: Gpu, usual: float) -> bool:
    used, power = gpu.utilization_percent or 0, gpu.power_watts or 0.0
    return used >= _SPINS_PERCENT and power < _SPINS_POWER_SHARE * usual
