"""Sends and receives that are written down as completed in the moment in which they were issued.

PyTorch's hook, which records for NCCL since 2.15, is given no work of its own for each part of a batch
(`batch_isend_irecv`), and takes it as completed at once. That tells nothing. What does is the other side: a receive of
which nobody has issued the send is not completed, nor a send without its receive. The two are counted against each
other, over whole records.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from collector.align.groups.signature_rules import OTHER_SIDE
from shared.wire.trace import State, Trace

_AT_ONCE_NS = 1_000_000
"""A watchdog sees an end tens of milliseconds later, the hook what it takes for one within some fifty microseconds."""
_FEW = 64


class _Pair(NamedTuple):
    """One side of what is sent between two places of a group."""

    group: tuple[str, str]
    op: str
    source: int | None
    target: int | None

    @property
    def other(self) -> "_Pair":
        return self._replace(op=OTHER_SIDE[self.op])

    @property
    def own(self) -> tuple[tuple[str, str], int | None]:
        return self.group, self.source if self.op == "send" else self.target


def with_unmatched(traces: Mapping[int, Trace]) -> dict[int, Trace]:
    """Return traces in which those that lack their other side are not completed."""
    posted = {rank: trace for rank, trace in traces.items() if any(islice(_posted(trace), _FEW))}
    if not posted:
        return dict(traces)
    issued = {rank: _issued(trace) for rank, trace in traces.items() if not trace.truncated and not trace.whole_from}
    ranks = {pair.own: rank for rank, pairs in issued.items() for pair in pairs}
    changed = {}
    for rank, trace in posted.items():
        state = array("B", trace.state)
        for pair, positions in issued.get(rank, {}).items():
            peer = ranks.get(pair.other.own)
            surplus = 0 if peer is None else len(positions) - len(issued[peer].get(pair.other, ()))
            for at in positions[-surplus:] if surplus > 0 else ():
                state[at] = State.ISSUED if _at_once(trace, at) else state[at]
        changed[rank] = trace.model_copy(update={"state": state})
    return {**traces, **changed}


def _posted(trace: Trace) -> Iterator[bool]:
    """Yield of each send and receive, newest first, whether it was taken as completed at once."""
    places = range(len(trace) - 1, -1, -1) if any(trace.is_p2p) else ()
    return (_at_once(trace, at) for at in places if trace.is_p2p[at])


def _at_once(trace: Trace, at: int) -> bool:
    return trace.state[at] == State.COMPLETED and 0 <= trace.completed_ns[at] - trace.created_ns[at] < _AT_ONCE_NS


def _issued(trace: Trace) -> dict[_Pair, list[int]]:
    found = defaultdict(list)
    for at, is_p2p in enumerate(trace.is_p2p):
        signature, group = trace.signatures[trace.signature[at]], trace.groups[trace.group[at]]
        if is_p2p and signature.op in OTHER_SIDE:
            found[_Pair((group.name, group.description), signature.op, signature.source, signature.target)].append(at)
    return found
