"""What outcomes of trials prove about nodes and links.

A trial is a small job of some nodes that use all links between them. So:

1. A trial that passes proves that its nodes, and all links between them, work.
2. A node is bad that has passed with nobody, and failed in pairs with three nodes that work; with both, where only
   two work. Each of these pairs may have failed for its link, but not all of them.
3. A link is bad whose two ends work, and that failed as a pair twice and never passed.
4. The network is divided where nodes that work with one another fail with the others as bad nodes would.
5. A node is unsteady that failed in pairs with three nodes that work, and passed with two of these another time; each
   of them failed with fewer. What loses some packets is so.
6. All else is not known: two nodes that failed with each other alone, and what was never tried.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

Members = tuple[int, ...]
"""Nodes of one trial, by index. Their order says how to halve them."""

Link = tuple[int, int]
"""Two nodes, the lower index first."""

WITNESSES = 3
"""Nodes that work and that a bad node must fail with: fewer could each have a bad link to it."""

LEAST_WITNESSES = 2

MOST_ISLANDS = 8
"""Sets of nodes that were never tried together, between which a division is looked for."""

SPLIT_SAMPLE = 8
SPLIT_FAILURES = 6
"""Of so many nodes of one side of a divided network each fails with the other side, and they so often together."""

LEAST_FLAKY = 2

LINK_FAILURES = 2
"""A single failure of a pair whose ends work may have passed by itself."""


@dataclass(frozen=True)
class Tried:
    """A trial and whether it passed."""

    members: Members
    passed: bool


def link_of(first: int, second: int) -> Link:
    """Return the link between two nodes."""
    return (first, second) if first < second else (second, first)


def mask_of(members: Iterable[int]) -> int:
    """Return a set of nodes as bits."""
    mask = 0
    for node in members:
        mask |= 1 << node
    return mask


@dataclass(frozen=True)
class Proof:
    """What is proved by `tried`, of `nodes`. Trials with other nodes prove nothing here and are not looked at."""

    nodes: Members
    tried: tuple[Tried, ...]

    @classmethod
    def of(cls, nodes: Iterable[int], tried: Iterable[Tried]) -> "Proof":
        """Return the proof; in whatever order nodes are given, and trials where they are of one size."""
        known = frozenset(nodes)
        return cls(tuple(sorted(known)), tuple(t for t in tried if len(t.members) > 1 and known.issuperset(t.members)))

    @cached_property
    def passing(self) -> tuple[int, ...]:
        """The sets that passed, as bits, those that are within others left out."""
        found: list[int] = []
        for mask in sorted({mask_of(t.members) for t in self.tried if t.passed}, key=int.bit_count, reverse=True):
            if not any(mask & ~larger == 0 for larger in found if larger.bit_count() > 2):
                found.append(mask)
        return tuple(found)

    @cached_property
    def failures(self) -> Counter[frozenset[int]]:
        """How often each set failed."""
        return Counter(frozenset(t.members) for t in self.tried if not t.passed)

    @cached_property
    def met(self) -> frozenset[Link]:
        """The pairs that were tried, passed or not."""
        return frozenset(link_of(*t.members) for t in self.tried if len(t.members) == 2)

    @cached_property
    def sound(self) -> frozenset[int]:
        """Step 1: nodes that work."""
        mask = 0
        for each in self.passing:
            mask |= each
        return frozenset(node for node in self.nodes if mask >> node & 1)

    @cached_property
    def witnesses_needed(self) -> int:
        """With how many nodes that work a bad one must fail."""
        return max(LEAST_WITNESSES, min(WITNESSES, len(self.sound)))

    @cached_property
    def failed_with(self) -> dict[int, frozenset[int]]:
        """By node: the nodes that work with which it failed as a pair."""
        peers: dict[int, set[int]] = {}
        for pair in (each for each in self.failures if len(each) == 2):
            for one, other in (sorted(pair), sorted(pair, reverse=True)):
                if other in self.sound:
                    peers.setdefault(one, set()).add(other)
        return {node: frozenset(found) for node, found in peers.items()}

    @cached_property
    def bad(self) -> frozenset[int]:
        """Step 2: nodes that do not work."""
        return frozenset(
            node
            for node in self.nodes
            if node not in self.sound and len(self.failed_with.get(node, ())) >= self.witnesses_needed
        )

    @cached_property
    def islands(self) -> tuple[frozenset[int], ...]:
        """The nodes that work, joined by the sets that passed; the largest island first."""
        joined: list[int] = []
        for mask in self.passing:
            apart = [each for each in joined if not each & mask]
            for each in joined:
                if each & mask:
                    mask |= each
            joined = [*apart, mask]
        found = [frozenset(node for node in self.nodes if mask >> node & 1) for mask in joined]
        return tuple(sorted(found, key=lambda island: (-len(island), min(island))))

    @cached_property
    def split(self) -> tuple[frozenset[int], ...]:
        """Step 4: the sides of a divided network, the largest first; none where it is not divided."""
        if not 1 < len(self.islands) <= MOST_ISLANDS or self.unmet_islands:
            return ()
        largest, *others = self.islands
        apart = [each for each in others if not any(self.crossings_left(each).values())]
        return (largest, *apart) if apart else ()

    @cached_property
    def unmet_islands(self) -> tuple[tuple[frozenset[int], frozenset[int]], ...]:
        """Two islands each of which no node has met one of the other."""
        home = {node: at for at, island in enumerate(self.islands) for node in island}
        met = {
            frozenset(home[node] for node in pair) for pair in self.failures if len(pair) == 2 and pair <= self.sound
        }
        pairs = combinations(range(len(self.islands)), 2)
        return tuple((self.islands[one], self.islands[other]) for one, other in pairs if {one, other} not in met)

    def crossings_left(self, island: frozenset[int]) -> dict[int, int]:
        """By node of an island: with how many more nodes of the largest it must fail until these are two sides."""
        largest, sample = self.islands[0], sorted(island)[:SPLIT_SAMPLE]
        wanted = min(WITNESSES, len(largest), -(-SPLIT_FAILURES // len(sample)))
        return {node: max(0, wanted - len(self.failed_with.get(node, frozenset()) & largest)) for node in sample}

    def _is_across(self, pair: frozenset[int]) -> bool:
        """Are its ends on two sides of a divided network?"""
        return sum(1 for side in self.split if side & pair) > 1

    @cached_property
    def unsteady(self) -> frozenset[int]:
        """Step 5: nodes that work at times."""
        failed: dict[int, set[int]] = {}
        for pair in self.failures:
            if len(pair) == 2 and pair <= self.sound and not self._is_across(pair):
                for node in pair:
                    failed.setdefault(node, set()).update(pair - {node})
        again = Counter(node for each in self.flaky if len(each) == 2 for node in each)
        return frozenset(
            node
            for node, others in failed.items()
            if len(others) >= WITNESSES
            and again[node] >= LEAST_FLAKY
            and all(len(failed[other]) < WITNESSES for other in others)
        )

    @property
    def unknown(self) -> frozenset[int]:
        """Step 6: nodes that are proved neither to work nor to be bad."""
        return frozenset(self.nodes) - self.sound - self.bad

    @cached_property
    def failed_links(self) -> dict[Link, int]:
        """How often each pair failed whose ends work and that never passed."""
        return {
            link_of(*pair): count
            for pair, count in self.failures.items()
            if len(pair) == 2 and pair <= self.sound and not self.is_proved(pair)
        }

    @cached_property
    def lone_links(self) -> dict[Link, int]:
        """Of these the ones that no division of the network explains."""
        return {link: count for link, count in self.failed_links.items() if not self._is_across(frozenset(link))}

    @property
    def bad_links(self) -> frozenset[Link]:
        """Step 3: links that do not work."""
        return frozenset(link for link, count in self.lone_links.items() if count >= LINK_FAILURES)

    @property
    def flaky(self) -> tuple[frozenset[int], ...]:
        """Sets that both failed and passed, the same nodes: a fault that comes and goes."""
        passed = {frozenset(t.members) for t in self.tried if t.passed}
        return tuple(sorted((each for each in self.failures if each in passed), key=sorted))

    def is_proved(self, members: Iterable[int]) -> bool:
        """Do these nodes work together? A set within one that passed does."""
        mask = mask_of(members)
        return mask.bit_count() < 2 or any(mask & ~each == 0 for each in self.passing)

    def unexplained(self) -> list[Members]:
        """Return the smallest sets that failed, of nodes that all work, with no pair in them that failed."""
        failed = {frozenset(t.members): t.members for t in self.tried if not t.passed and len(t.members) > 2}
        left = [
            members
            for whole, members in failed.items()
            if whole <= self.sound
            and not self.is_proved(whole)
            and not any(first in whole and second in whole for first, second in self.failed_links)
        ]
        return [each for each in left if not any(set(other) < set(each) for other in left)]

    def without_bad_links(self) -> Members:
        """Return nodes that work with no bad link between them: of each such link the end that has most is left out.

        Of a divided network they are all on the largest side.
        """
        left = set(self.sound).difference(self.unsteady, *self.split[1:])
        links = {link for link in self.bad_links if left.issuperset(link)}
        while links:
            ends = Counter(node for link in links for node in link)
            worst = max(ends, key=lambda node: (ends[node], node))
            left.discard(worst)
            links = {link for link in links if worst not in link}
        return tuple(sorted(left))


def at_scale(proof: Proof) -> tuple[Members, ...]:
    """Return the sets that fail although all parts of them that were tried work: a fault that only size shows."""
    return tuple(
        each
        for each in proof.unexplained()
        if proof.failures[frozenset(each)] >= LINK_FAILURES and all(proof.is_proved(part) for part in parts_of(each))
    )


def halves_of(members: Sequence[int]) -> tuple[Members, Members]:
    """Return both halves, in their order."""
    middle = (len(members) + 1) // 2
    return tuple(members[:middle]), tuple(members[middle:])


def parts_of(members: Members) -> Iterator[Members]:
    """Yield the halves of a set, then each quarter of one with each quarter of the other: all links between them."""
    first, second = halves_of(members)
    yield first
    yield second
    (a, b), (c, d) = halves_of(first), halves_of(second)
    for one, other in ((a, c), (b, d), (a, d), (b, c)):
        if one and other and len(one) + len(other) < len(members):
            yield one + other
