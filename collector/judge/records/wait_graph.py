"""Step 6 of the verdict: follow the edges to the root.

Roots are ranks that others wait for and that wait for nobody themselves. Strongly connected ranks wait for each
other: a deadlock. Tarjan's algorithm ("Depth-first search and linear graph algorithms", 1972), iterative, because
a chain of victims may be as long as the job has ranks.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from collector.align.groups.wait_edge import Edge, age_of


@dataclass(frozen=True)
class WaitGraph:
    """Who waits for whom, with the edges that say so.

    Ranks are nodes from 0 upwards. Between a waiter and those it waits for stands a node of its own, below 0, one for
    each set of holders: the graph stays linear in memberships where half a group waits for the other half.
    """

    edges: tuple[Edge, ...]
    cut: frozenset[int] = frozenset()
    """Ranks convicted by other evidence: what they wait for does not matter any more."""

    @cached_property
    def successors(self) -> dict[int, set[int]]:
        """Where each node's waits lead, those included that a rank will come to only later."""
        return self._leading(self.edges)

    def _leading(self, edges: Iterable[Edge]) -> dict[int, set[int]]:
        found: dict[int, set[int]] = defaultdict(set)
        between: dict[int, int] = {}
        for edge in edges:
            if edge.waiter not in self.cut and edge.holders:
                node = between.setdefault(id(edge.holders), -1 - len(between))
                found[edge.waiter].add(node)
                if node not in found:
                    found[node] = set(edge.holders)
        return found

    @cached_property
    def _waiters(self) -> dict[int, set[int]]:
        """The successors, backwards."""
        waiters: dict[int, set[int]] = defaultdict(set)
        for node, following in self.successors.items():
            for holder in following:
                waiters[holder].add(node)
        return waiters

    def waits(self, rank: int) -> bool:
        """Does it wait for anybody?"""
        return rank in self.successors

    def roots(self) -> tuple[int, ...]:
        """Ranks waited for that wait for nobody, ascending."""
        held = {holder for node, holders in self.successors.items() if node < 0 for holder in holders}
        return tuple(sorted(rank for rank in held if not self.waits(rank)))

    def cycles(self) -> tuple[tuple[int, ...], ...]:
        """Sets of ranks that wait for each other now, each ascending."""
        now = _without_ends(self._leading(edge for edge in self.edges if edge.begun))
        components = (tuple(sorted(node for node in c if node >= 0)) for c in strong_components(now) if len(c) > 1)
        return tuple(sorted(components))

    def victims_of(self, culprits: Iterable[int]) -> frozenset[int]:
        """Ranks that wait for one of `culprits`, directly or through others."""
        guilty = set(culprits)
        reached, frontier = set(guilty), list(guilty)
        while frontier:
            further = self._waiters.get(frontier.pop(), set()) - reached
            reached |= further
            frontier.extend(further)
        return frozenset(node for node in reached - guilty if node >= 0)

    @cached_property
    def _waits(self) -> dict[int, list[int]]:
        """Places of the edges that have one tuple of holders in common, by its identity."""
        places: dict[int, list[int]] = defaultdict(list)
        for place, edge in enumerate(self.edges):
            places[id(edge.holders)].append(place)
        return places

    @cached_property
    def _waits_for(self) -> dict[int, list[int]]:
        """Which of these tuples each rank is in."""
        found: dict[int, list[int]] = defaultdict(list)
        for key, places in self._waits.items():
            for holder in self.edges[places[0]].holders:
                found[holder].append(key)
        return found

    def edges_to(self, culprits: Iterable[int]) -> tuple[Edge, ...]:
        """The edges by which others wait for one of `culprits`."""
        guilty = set(culprits)
        keys = {key for rank in guilty for key in self._waits_for.get(rank, ())}
        edges = (self.edges[place] for place in sorted(place for key in keys for place in self._waits[key]))
        return tuple(edge for edge in edges if edge.waiter not in guilty)

    def first_edges(self) -> dict[int, Edge]:
        """For each rank that others wait for, the edge to it that has waited longest."""
        firsts: dict[int, Edge] = {}
        oldest = [min((self.edges[place] for place in places), key=age_of) for places in self._waits.values()]
        for edge in sorted(oldest, key=age_of):
            for holder in edge.holders:
                firsts.setdefault(holder, edge)
        return firsts

    def edges_among(self, ranks: Collection[int]) -> tuple[Edge, ...]:
        """The edges by which `ranks` wait for each other and for nobody else."""
        inside = frozenset(ranks)
        held = {key for key, places in self._waits.items() if inside.issuperset(self.edges[places[0]].holders)}
        return tuple(edge for edge in self.edges if edge.holders and edge.waiter in inside and id(edge.holders) in held)


def _without_ends(successors: Mapping[int, set[int]]) -> dict[int, set[int]]:
    """Leave out, again and again, the nodes whose waits lead nowhere: they are in no circle, and often that is all."""
    waiters: dict[int, list[int]] = defaultdict(list)
    left = {node: len(following) for node, following in successors.items()}
    for node, following in successors.items():
        for holder in following:
            waiters[holder].append(node)
    ends = [holder for holder in waiters if not left.get(holder)]
    while ends:
        for waiter in waiters[ends.pop()]:
            left[waiter] -= 1
            if left[waiter] == 0:
                ends.append(waiter)
    inside = {node for node, count in left.items() if count > 0}
    return {node: following & inside for node, following in successors.items() if node in inside}


def strong_components(successors: Mapping[int, set[int]]) -> list[list[int]]:
    """Return the strongly connected components of the graph, in an order fixed by the ranks alone."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_path: set[int] = set()
    path: list[int] = []
    components: list[list[int]] = []
    for start in sorted(successors):
        if start in index:
            continue
        work = [(start, iter(sorted(successors.get(start, ()))))]
        index[start] = low[start] = len(index)
        path.append(start)
        on_path.add(start)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    components.append(_popped(path, on_path, node))
            elif following not in index:
                index[following] = low[following] = len(index)
                path.append(following)
                on_path.add(following)
                work.append((following, iter(sorted(successors.get(following, ())))))
            elif following in on_path:
                low[node] = min(low[node], index[following])
    return components


def _popped(path: list[int], on_path: set[int], node: int) -> list[int]:
    component = []
    while True:
        top = path.pop()
        on_path.discard(top)
        component.append(top)
        if top == node:
            return component
