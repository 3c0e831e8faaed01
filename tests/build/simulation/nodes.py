"""Nodes and links of which the truth is known, and the search for the bad ones among them."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from cli.preflight.search.proof import Link, Members, Proof, Tried, link_of
from cli.preflight.search.rounds import Breadth, next_round, waves

MOST_ROUNDS = 200
"""A search that goes on for longer than any does would never end."""


@dataclass(frozen=True)
class Cluster:
    """`size` nodes, and what is wrong with them."""

    size: int
    bad: frozenset[int] = frozenset()
    links: frozenset[Link] = frozenset()
    fails_from: int | None = None
    """Trials of as many nodes fail, whichever they are."""
    side: frozenset[int] = frozenset()
    """Nodes that work with one another, and with no other."""

    @property
    def nodes(self) -> Members:
        """All of them."""
        return tuple(range(self.size))

    def passes(self, members: Members) -> bool:
        """Does a trial of these nodes pass, in which each uses its links to all others?"""
        inside = frozenset(members)
        too_large = self.fails_from is not None and len(inside) >= self.fails_from
        divided = bool(inside & self.side) and not inside <= self.side
        cut = any(a in inside and b in inside for a, b in self.links)
        return not (too_large or divided or cut or inside & self.bad)


@dataclass
class Search:
    """A search to its end."""

    cluster: Cluster
    breadth: Breadth = Breadth.ALL_SIZES
    tried: list[Tried] = field(default_factory=list)
    rounds: int = 0
    """After the trial of all nodes."""
    waves: int = 0
    bad_named_after: int | None = None
    """Rounds until all bad nodes were named."""

    def run(self) -> Proof:
        """Try all nodes, then what the search asks for; return what is proved in the end."""
        if self.breadth is Breadth.ALL_SIZES:
            self._try([self.cluster.nodes])
        while trials := next_round(self.cluster.nodes, self.tried, self.breadth):
            assert self.rounds < MOST_ROUNDS, "the search does not end"
            self.rounds += 1
            for wave in waves(trials):
                assert len({node for trial in wave for node in trial}) == sum(map(len, wave)), "a node is used twice"
                self.waves += 1
                self._try(wave)
            if self.bad_named_after is None and self.proof.bad == self.cluster.bad:
                self.bad_named_after = self.rounds
        return self.proof

    @property
    def proof(self) -> Proof:
        """What is proved so far."""
        return Proof.of(self.cluster.nodes, self.tried)

    def _try(self, trials: Iterable[Members]) -> None:
        self.tried += [Tried(members, self.cluster.passes(members)) for members in trials]


def random_cluster(size: int, *, bad: int, links: int, seed: int) -> Cluster:
    """Return a cluster with faults at places that `seed` decides; no bad link ends at a bad node."""
    chance = random.Random(seed)
    nodes = list(range(size))
    chance.shuffle(nodes)
    good = nodes[bad:]
    pairs = {link_of(*chance.sample(good, 2)) for _ in range(links)} if len(good) > 1 else set()
    return Cluster(size, frozenset(nodes[:bad]), frozenset(pairs))
