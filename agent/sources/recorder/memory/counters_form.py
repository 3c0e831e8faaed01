"""Puts the counters of a rank's groups into the form of a trace: what is pending, and how far each group is."""

from array import array
from collections.abc import Sequence

from agent.sources.recorder.memory.group_counters import GroupCounters, PendingWork
from shared.rank_sets import fold
from shared.wire.trace import COLUMNS, Group, Mark, Origin, Signature, State, Trace


def trace_of(counters: Sequence[GroupCounters]) -> Trace:
    """Return the trace: oldest first, over all groups."""
    works = [(at, one, work) for at, one in enumerate(counters) for work in one.pending]
    works.sort(key=lambda each: each[2].issued_ns)
    signatures: dict[Signature, int] = {}
    rows = [
        (
            at,
            signatures.setdefault(_signature(work), len(signatures)),
            0,
            one.collectives if work.is_p2p else work.number,
            work.number if work.is_p2p else one.pairs,
            place,
            work.is_p2p,
            _state(work, one),
            work.issued_ns,
            0,
            0,
        )
        for place, (at, one, work) in enumerate(works, start=1)
    ]
    columns = zip(*rows, strict=True) if rows else ((),) * len(COLUMNS)
    return Trace(
        origin=(Origin.PROCESS_GROUPS,),
        active_only=True,
        groups=tuple(map(_group, counters)),
        signatures=tuple(signatures),
        marks=tuple(
            Mark(group=at, issued=one.collectives, started=one.status.started, completed=one.completed)
            for at, one in enumerate(counters)
        ),
        **{name: array("q", column) for name, column in zip(COLUMNS, columns, strict=True)},
    )


def _group(one: GroupCounters) -> Group:
    ranks, ascending = one.group.members, sorted(one.group.members)
    order = None if list(ranks) == ascending else ranks
    timeout = one.group.timeout_ms if 0 < one.group.timeout_ms < 1 << 63 else None
    return Group(
        name=one.group.name,
        description=one.group.description,
        members=fold(ascending),
        order=order,
        timeout_ms=timeout,
    )


def _signature(work: PendingWork) -> Signature:
    """Elements in the place of sizes: an operation keeps their number alone."""
    sizes = [((count,),) if count >= 0 else () for count in (work.elements_in, work.elements_out)]
    return Signature(work.op, "nccl", input_sizes=sizes[0], output_sizes=sizes[1])


def _state(work: PendingWork, one: GroupCounters) -> State:
    """Whether the device has begun it is counted where the job asks for timing, and no pairs are counted beside."""
    started = one.status.started
    begun = started is not None and not one.pairs and work.number <= started
    return State.STARTED if begun else State.ISSUED
