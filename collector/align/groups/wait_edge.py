"""One rank waits for others, in one operation: the edge of which the graph of waiting is made."""

from dataclasses import dataclass

from collector.align.groups.process_groups import GroupView
from collector.align.stacks.activity import place
from shared.answer.diagnosis import Wait
from shared.rank_sets import fold
from shared.wire.stacks import Frame
from shared.wire.trace import Signature


@dataclass(frozen=True)
class Edge:
    """One rank waits for others, in one operation. Empty `holders`: everybody came and nobody finishes."""

    waiter: int
    holders: tuple[int, ...]
    group: GroupView
    signature: Signature
    sequence: int | None
    """None for point-to-point operations: their numbers are not comparable between ranks."""
    is_p2p: bool
    call_site: Frame | None
    created_ns: int
    queued: tuple[int, ...] = ()
    """Those of `holders` who have issued it too, and whose queue has not come to it."""
    begun: bool = True
    """Has the waiter's own queue come to it? Else the waiter is held by something older, and only will wait here."""

    @property
    def wait(self) -> Wait:
        site = self.call_site
        return Wait(
            rank=self.waiter,
            waits_for=fold(self.holders),
            group=self.group.ref,
            op=self.signature.op,
            sequence=self.sequence,
            call_site=None if site is None else place(site),
        )


def age_of(edge: Edge) -> tuple[bool, int, str, int]:
    """What edges are compared by: the one that comes first has waited longest; collectives come before the others."""
    return (edge.is_p2p, edge.created_ns, edge.group.name, edge.waiter)
