"""Step 6: ranks of which one may wait for another where no record says so, in making a communicator.

A communicator is made at a group's first use, before the operation is on record. Where others used a group of theirs
for the first time and then came to what they wait in, ranks that are short of it may be at that same line of theirs:
who waits there for the other looks just like the one who never came. Stacks would tell them apart.
"""

from collector.align.observations import Observations
from collector.align.roster import ByRank
from collector.align.stacks.activity import NOT_SEEN
from collector.judge.certainty import Support
from collector.judge.fault import Fault
from shared.rank_sets import ranks_in_words, unfold
from shared.wire.trace import Group, Trace


def unless_first_use(fault: Fault, observations: Observations) -> Fault:
    """Return the fault without culprits where these may wait for one another at a first use."""
    seen = (observations.activities.get(rank, NOT_SEEN) for rank in fault.culprits)
    if len(fault.culprits) < 2 or any(each.frames for each in seen):
        return fault
    used = ((edge.waiter, _first_used(edge.waiter, edge.created_ns, observations.traces)) for edge in fault.edges)
    culprits = frozenset(fault.culprits)
    others = ((rank, group) for rank, group in used if group and culprits.isdisjoint(unfold(group.members or "")))
    first = next(others, None)
    if first is None:
        return fault
    rank, group = first
    remark = (
        f"rank {rank} used group {group.description or group.name} for the first time just before: one of "
        f"{ranks_in_words(fault.culprits)} may wait for another in such a first use, which no record shows before it "
        "is over"
    )
    return fault.resting_on(Support.TIE, culprits=(), remarks=(*fault.remarks, remark))


def _first_used(rank: int, before_ns: int, traces: ByRank[Trace]) -> Group | None:
    """Return the group whose first operation is what a rank issued last before a moment; None: it was another one."""
    if rank not in traces:
        return None
    trace = traces[rank]
    last = next((at for at in reversed(range(len(trace))) if trace.created_ns[at] < before_ns), None)
    if last is None or trace.is_p2p[last] or trace.collective_seq[last] != 1:
        return None
    return trace.groups[trace.group[last]]
