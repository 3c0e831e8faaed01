"""Step 4, operations with a root: of two who act as the root, one may always have been."""

from collections.abc import Callable
from dataclasses import replace

from collector.align.thresholds import COMPARED_BEFORE, LEAST_EARLIER
from collector.judge.records.compare_sequences import Mismatch
from shared.isolation import costs_itself
from shared.wire.trace import Signature


@costs_itself(lambda found, roots: found)
def with_usual_root(found: Mismatch, roots: Callable[[dict[int, Signature]], set[int] | None]) -> Mismatch:
    """Return the mismatch with its culprit, where one rank was the root of all operations like this one before.

    `roots`: who acts as the root, by what each member has issued; None where that cannot be told.
    """
    group, op = found.group, found.sides[0][1].op
    held = set.intersection(*(set(lane.sequences) for lane in group.lanes.values()))
    recent = sorted(at for at in held if at < found.sequence)[-COMPARED_BEFORE:]
    *before, last = ({r: group.parts_at(r, at)[-1] for r in group.order} for at in (*recent, found.sequence))
    acted = [roots(told) for told in before if {one.op for one in told.values()} == {op}]
    earlier = [each for each in acted if each is not None]
    usual = set.union(*earlier) if len(earlier) >= LEAST_EARLIER else set()
    acting = roots(last) or set()
    odd = tuple(sorted(acting - usual))
    if len(usual) != 1 or not usual < acting or len(odd) != 1:
        return found
    remark = f"rank {usual.pop()} was the root of the {len(earlier)} operations of this kind before it"
    return replace(found, culprits=odd, remarks=(*found.remarks, remark))
