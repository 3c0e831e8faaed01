"""Step 5 on a device: who has issued an operation and not begun it.

A call on a device only puts work on a queue. Queues run in order and wait for each other where the code waits, so an
operation that all members have issued may still lack one whose queue is held by an older operation. Whether work
has begun is recorded only where the job asks for timing (TORCH_NCCL_ENABLE_TIMING); elsewhere an older unfinished
operation of the same rank stands for it. Gloo has no such queues: what it has issued runs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from shared.wire.trace import State, Trace

_NO_QUEUE = "gloo"
_POSTED = {"isend", "irecv"}
_WAITED = {"send", "recv", "batch_isend_irecv"}
_UNFINISHED = re.compile(rb"[^\x02]")


def unfinished(trace: Trace) -> tuple[int, ...]:
    """Return the positions of all records that are not completed, oldest first."""
    return tuple(match.start() for match in _UNFINISHED.finditer(bytes(trace.state.tolist())))


def queues_of(traces: Mapping[int, Trace]) -> dict[int, "Queue"]:
    """Return the queue of each rank. Ranks of one program may share a column of states, which is then read once."""
    known: dict[int, tuple[int, ...]] = {}
    queues = {}
    for rank, trace in traces.items():
        if id(trace.state) not in known:
            known[id(trace.state)] = unfinished(trace)
        queues[rank] = Queue(trace, known[id(trace.state)])
    return queues


@dataclass(frozen=True)
class Queue:
    """What one rank has put on its device and not got back."""

    trace: Trace
    unfinished: tuple[int, ...]
    """Positions of all unfinished records, oldest first."""

    @cached_property
    def tells_starts(self) -> bool:
        """Does the recorder of this rank write down when operations begin?"""
        return any(self.trace.started_ns) or any(self.trace.state[at] == State.STARTED for at in self.unfinished)

    def holds_back(self, position: int) -> bool:
        """Has the operation at `position` been issued without having begun?"""
        trace = self.trace
        if trace.state[position] != State.ISSUED or trace.signatures[trace.signature[position]].backend == _NO_QUEUE:
            return False
        return self.tells_starts or self.older(position) is not None

    def older(self, position: int) -> int | None:
        """Position of the unfinished operation that keeps the one at `position` from beginning; None: none is known.

        Parts of one batch run beside each other, and so do the calls that their caller does not wait for.
        """
        batch = self._batch(position)
        for at in self.unfinished:
            if at >= position:
                return None
            if batch is None or (self._batch(at) != batch and not self._runs_beside(at)):
                return at
        return None

    def _batch(self, position: int) -> tuple[int, int, int] | None:
        """What the parts of one batch have in common; None for a collective."""
        trace = self.trace
        if not trace.is_p2p[position]:
            return None
        return trace.group[position], trace.collective_seq[position], trace.p2p_seq[position]

    def _runs_beside(self, position: int) -> bool:
        """A send or receive that was posted with `isend` or `irecv`, and not from within a call that waits for it."""
        called = {frame.function for frame in self.trace.call_sites[self.trace.call_site[position]]}
        return bool(self.trace.is_p2p[position]) and bool(called & _POSTED) and not called & _WAITED
