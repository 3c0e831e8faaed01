"""Step 6 of the verdict: follow the edges to the root.

Roots are ranks that others wait for and that wait for nobody themselves. Strongly connected ranks wait for each
other: a deadlock. Kosaraju's algorithm (Aho, Hopcroft and Ullman, "Data Structures and Algorithms", 1983), iterative,
because a chain of victims may be as long as the job has ranks.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from collector.align.groups.wait_edges import Edge, age_of


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
    def _waiters(self) -> Mapping[int, set[int]]:
        """The successors, backwards."""
        return _turned_round(self.successors)

    def waits(self, rank: int) -> bool:
        """Does it wait for anybody?"""
        return rank in self.successors

    def roots(self) -> tuple[int, ...]:
        """Ranks waited for that wait for nobody, ascending."""
        held = {holder for node, holders in self.successors.items() if node < 0 for holder in holders}
        return tuple(sorted(rank for rank in held if not self.waits(rank)))

    def cycles(self) -> tuple[tuple[int, ...], ...]:
        """Sets of ranks that wait for each other now, each ascending."""
        now = self._leading(edge for edge in self.edges if edge.begun)
        components = (tuple(sorted(node for node in c if node >= 0)) for c in strong_components(now) if len(c) > 1)
        return tuple(sorted(components))

    def victims_of(self, culprits: Iterable[int]) -> frozenset[int]:
        """Ranks that wait for one of `culprits`, directly or through others."""
        guilty = set(culprits)
        return frozenset(node for node in _reached(guilty, self._waiters) - guilty if node >= 0)

    def waited_for(self, waiters: Iterable[int]) -> frozenset[int]:
        """Ranks for which one of `waiters` waits, directly or through others; in a circle itself, too."""
        first = {node for rank in waiters for node in self.successors.get(rank, ())}
        return frozenset(node for node in _reached(first, self.successors) if node >= 0)

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


def strong_components(successors: Mapping[int, Collection[int]]) -> list[set[int]]:
    """Return the strongly connected components: what is reached backwards, from whichever node is left last."""
    ended, backwards = _by_end(successors), _turned_round(successors)
    left, components = set(ended), []
    for node in reversed(ended):
        if node in left:
            components.append(_reached([node], backwards, left))
            left -= components[-1]
    return components


def _by_end(successors: Mapping[int, Collection[int]]) -> list[int]:
    """All nodes in the order in which a walk into the depth is done with them."""
    ended: list[int] = []
    seen: set[int] = set()
    for start in successors:
        path = [] if start in seen else [(start, iter(successors[start]))]
        seen.add(start)
        while path:
            node, rest = path[-1]
            following = next((each for each in rest if each not in seen), None)
            if following is None:
                ended.append(node)
                path.pop()
            else:
                seen.add(following)
                path.append((following, iter(successors.get(following, ()))))
    return ended


def _turned_round(successors: Mapping[int, Collection[int]]) -> Mapping[int, set[int]]:
    waiters: dict[int, set[int]] = defaultdict(set)
    for node, following in successors.items():
        for holder in following:
            waiters[holder].add(node)
    return waiters


def _reached(
    starts: Iterable[int], following: Mapping[int, Collection[int]], within: Container[int] | None = None
) -> set[int]:
    """Return the nodes that lead from `starts`, these included, as far as it goes through nodes of `within`."""
    reached = set(starts)
    frontier = list(reached)
    while frontier:
        found = following.get(frontier.pop(), ())
        further = {node for node in found if node not in reached and (within is None or node in within)}
        reached |= further
        frontier.extend(further)
    return reached
