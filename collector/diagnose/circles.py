"""Step 6: a circle of waits as a fault, with the walk around it and the ranks that broke the usual order."""

from collections import defaultdict

from collector.diagnose.graph import WaitGraph
from collector.diagnose.orders import order_breaker
from collector.diagnose.programs import Programs
from collector.diagnose.scene import Fault, Scene, first_edge
from collector.diagnose.waits import Edge
from shared.diagnosis import Cause, Certainty, Kind

_MOST_TOLD = 4
_TIED = "the ranks took the operations in different orders, and no order has a majority"


def circle_fault(cycle: tuple[int, ...], graph: WaitGraph, scene: Scene, programs: Programs) -> Fault:
    """One set of ranks that wait for each other: a deadlock, and who of them strayed from the usual order."""
    inside = tuple(e for e in scene.edges if e.begun and e.waiter in cycle and set(e.holders) & set(cycle))
    p2p = all(edge.is_p2p for edge in inside)
    strays = () if p2p else programs.strays(cycle)
    breaker = None if p2p or strays else order_breaker(cycle, inside, scene.groups, scene.traces)
    culprits = cycle if p2p else tuple(stray.rank for stray in strays) if breaker is None else (breaker,)
    sure = all(not edge.queued for edge in inside) and bool(culprits)
    first = first_edge(inside)
    return Fault(
        kind=Kind.P2P_DEADLOCK if p2p else Kind.ORDER_INVERSION,
        culprits=culprits,
        victims=tuple(sorted((graph.victims_of(cycle) | set(cycle)) - set(culprits))),
        certainty=Certainty.PROVEN if sure else Certainty.SUSPECTED if p2p or not culprits else Certainty.SUPPORTED,
        cause=Cause.USER_CODE,
        edges=inside,
        cycle=_ring(cycle, inside),
        group=None if first is None else first.group,
        op=None if first is None else first.signature.op,
        sequence=None if first is None else first.sequence,
        remarks=tuple(map(str, strays[:_MOST_TOLD])) if culprits else (_TIED,),
    )


def _ring(cycle: tuple[int, ...], edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """One closed walk through the deadlock, beginning at its lowest rank."""
    leaving: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        leaving[edge.waiter].append(edge)
    walk: dict[int, Edge] = {}
    at = cycle[0]
    while at not in walk:
        edge = min(leaving[at], key=lambda e: (e.created_ns, e.group.name))
        onward = sorted(set(edge.holders) & set(cycle))
        walk[at] = edge
        at = next((rank for rank in onward if rank not in walk), onward[0])
    ring = list(walk)
    return tuple(walk[rank] for rank in ring[ring.index(at) :])
