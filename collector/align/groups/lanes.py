"""Step 3's inner loop: one rank's collectives on one group, cut out of the columns of its trace.

A job of thousands of ranks brings millions of records; nothing here touches them one by one in Python. Columns become
bytes once per trace, masks are made by `bytes.translate`, and rows are picked by `itertools.compress`. Ranks that run
the same program have the same columns: their lanes are cut once and shared.
"""

from collections.abc import Collection, Mapping
from itertools import compress

from collector.align.groups.device_queues import unfinished
from collector.align.groups.table import NONE, Lane
from shared.formats.recorder.coalesced import COALESCED
from shared.wire.trace import Trace

_MOST_INDICES = 256
"""Indices above do not fit into a byte; traces with so many groups or signatures take the slower way."""


class Cutter:
    """Cuts the lanes of one trace, and of all whose columns are equal, converting its columns once."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._unfinished = unfinished(trace)
        self._groups = bytes(trace.group.tolist()) if len(trace.groups) <= _MOST_INDICES else None
        self._numbered = not trace.collective_seq or min(trace.collective_seq) > 0
        self._from_zero = b"" if self._numbered else _counts_from_zero(trace)
        self._lanes: dict[tuple[int, ...], Lane | None] = {}
        self.has_p2p = any(trace.is_p2p)
        self.pending_p2p = tuple(at for at in self._unfinished if trace.is_p2p[at])
        """Positions of the point-to-point operations that are not completed."""

    def lane(self, indices: tuple[int, ...]) -> Lane | None:
        """The lane of the group that stands at `indices` of the group table; None where its progress is not known."""
        if indices not in self._lanes:
            self._lanes[indices] = self._cut(indices)
        return self._lanes[indices]

    def _cut(self, indices: tuple[int, ...]) -> Lane | None:
        trace = self._trace
        mask = self._mask(indices)
        sequences = tuple(compress(trace.collective_seq, mask))
        positions = tuple(compress(range(len(trace)), mask))
        if list(sequences) != sorted(sequences):
            sequences, positions = _sorted_together(sequences, positions)
        marks = [mark for mark in trace.marks if mark.group in indices]
        if not sequences and not (trace.active_only and marks) and (trace.truncated or trace.active_only):
            return None
        pending = tuple(sorted({trace.collective_seq[at] for at in self._unfinished if mask[at]}))
        issued = sequences[-1] if sequences else NONE
        completed = _last_completed(sequences, pending)
        if trace.active_only:
            issued = max([issued, *(mark.issued for mark in marks if mark.issued is not None)])
            completed = max([completed, *(mark.completed for mark in marks if mark.completed is not None)])
        return Lane(issued, completed, sequences, positions, pending, trace.is_recorded)

    def _mask(self, indices: Collection[int]) -> bytes:
        trace = self._trace
        if self._groups is None:
            mask = bytes(group in indices for group in trace.group)
        else:
            table = bytearray(_MOST_INDICES)
            for index in indices:
                table[index] = 1
            mask = self._groups.translate(table)
        if self.has_p2p:
            mask = bytes(mine and not p2p for mine, p2p in zip(mask, trace.is_p2p, strict=True))
        if not self._numbered:
            numbered = (seq > 0 or first for seq, first in zip(trace.collective_seq, self._from_zero, strict=True))
            mask = bytes(mine and counted for mine, counted in zip(mask, numbered, strict=True))
        return mask


def _counts_from_zero(trace: Trace) -> bytes:
    """Which records without a sequence are the first collective of a recorder that counts from 0, as torchcomms does.

    It counts operations from 0, too; elsewhere such a record is a send, a receive or the end of their batch.
    """
    if min(trace.op_id) > 0:
        return bytes(len(trace))
    one_of_two = {at for at, signature in enumerate(trace.signatures) if signature.source is not None}
    one_of_two |= {at for at, signature in enumerate(trace.signatures) if signature.op == COALESCED}
    columns = zip(trace.collective_seq, trace.p2p_seq, trace.op_id, trace.signature, strict=True)
    return bytes(not seq and not p2p and not op_id and at not in one_of_two for seq, p2p, op_id, at in columns)


def cutters_for(traces: Mapping[int, Trace]) -> dict[int, Cutter]:
    """One cutter for each rank; traces with equal columns share one."""
    shared: dict[object, Cutter] = {}
    cutters: dict[int, Cutter] = {}
    for rank, trace in traces.items():
        key = _what_lanes_show(trace)
        cutter = shared.get(key)
        cutters[rank] = cutter = shared.setdefault(key, Cutter(trace)) if cutter is None else cutter
    return cutters


def _what_lanes_show(trace: Trace) -> object:
    """Everything that a lane is made of."""
    columns = (trace.group, trace.collective_seq, trace.is_p2p, trace.state)
    marks: tuple[object, ...] = tuple((mark.group, mark.issued, mark.completed) for mark in trace.marks)
    if trace.collective_seq and min(trace.collective_seq) == 0:
        marks = (*marks, _counts_from_zero(trace))
    flags = (len(trace), len(trace.groups), trace.active_only, trace.truncated, trace.is_recorded)
    return (*(column.tobytes() for column in columns), marks, flags)


def _sorted_together(sequences: tuple[int, ...], positions: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pairs = sorted(zip(sequences, positions, strict=True))
    return tuple(seq for seq, _ in pairs), tuple(at for _, at in pairs)


def _last_completed(sequences: tuple[int, ...], pending: tuple[int, ...]) -> int:
    if not pending:
        return sequences[-1] if sequences else NONE
    unfinished = set(pending)
    return next((seq for seq in reversed(sequences) if seq not in unfinished), NONE)
