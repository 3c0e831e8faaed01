"""Which nodes to try together next.

After a trial of all nodes failed:

1. Disjoint pairs. Members of pairs that pass work.
2. Each member of a failed pair meets one node that works.
3. Who fails there as well meets more of them, until it passes or is bad; a failed pair whose ends work is tried again.
4. Bad nodes meet each other: those that work with one another are one side of a divided network.
5. All that work are tried together. Where that fails twice, halves of them, then quarters of one half with those of
   the other, down to a link, or to a size below which nothing fails. Where both halves work, some of one meet some of
   the other first: if all of these fail, the network between the halves is at fault.

Where only pairs are tried, step 5 is: nodes meet those at a distance of 2, 4, 8 and so on, which crosses every line
along which a network can be divided.

Fewer than half of the nodes being bad, at least one pair passes in round 1, so that round 2 finds all nodes that work
and round 3 names all bad ones, however these were paired. (Where the number is odd, the last three meet one another.)
A round holds what is known to be useful before it begins; `waves` says what of it can run at the same time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import combinations

from cli.preflight.search.proof import (
    LINK_FAILURES,
    MOST_ISLANDS,
    Link,
    Members,
    Proof,
    Tried,
    halves_of,
    link_of,
    parts_of,
)


class Breadth(Enum):
    """What is tried beside the pairs that name bad nodes."""

    ALL_SIZES = "all sizes"
    FAR_PAIRS = "far pairs"
    """Pairs alone, also of nodes far apart."""
    NEAR_PAIRS = "near pairs"


MOST_STRANGERS = 3
"""Rounds in which nodes meet of which none is known to work, before the search gives up."""

MOST_NARROWED = 8
"""Failed sets that are halved at the same time: where links fail by the hundred, a few of them say enough."""

SUSPICIOUS_LINKS = 3
"""Links between nodes that work that failed: from so many on the network may be divided."""

SUSPECTS_MET = {Breadth.ALL_SIZES: 2, Breadth.FAR_PAIRS: 6}
"""Other bad nodes that each bad node meets: a trial that times out takes longer than a connection."""

MOST_LINKS_FOLLOWED = 24
"""Bad links after which no more are looked for: then it is no single link, and the report says so."""


def next_round(
    nodes: Iterable[int], tried: Iterable[Tried], breadth: Breadth = Breadth.ALL_SIZES
) -> tuple[Members, ...]:
    """Return the trials of the next round, most useful first; none where no further trial would prove anything."""
    proof = Proof.of(nodes, tried)
    if len(proof.nodes) < 2 or proof.is_proved(proof.nodes):
        return ()
    if not proof.met:
        return _all_in_pairs(proof.nodes)
    trials = (*_with_witnesses(proof), *_links_again(proof))
    if trials or breadth is Breadth.NEAR_PAIRS:
        return trials
    far = _far_apart(proof) if breadth is Breadth.FAR_PAIRS else ()
    divided: tuple[Members, ...] = far or (
        *_among_bad(proof, SUSPECTS_MET[breadth]),
        *_on_other_islands(proof),
        *_across(proof),
    )
    return divided if breadth is Breadth.FAR_PAIRS else divided or _together(proof)


def waves(trials: Sequence[Members]) -> tuple[tuple[Members, ...], ...]:
    """Divide trials into groups that share no node, which can run at the same time."""
    divided: list[tuple[set[int], list[Members]]] = []
    for trial in trials:
        free = next((each for each in divided if each[0].isdisjoint(trial)), None)
        if free is None:
            free = (set(), [])
            divided.append(free)
        busy, wave = free
        busy.update(trial)
        wave.append(trial)
    return tuple(tuple(wave) for _, wave in divided)


def _all_in_pairs(nodes: Members) -> tuple[Members, ...]:
    if len(nodes) % 2 == 0:
        return tuple((nodes[at], nodes[at + 1]) for at in range(0, len(nodes), 2))
    *even, _, _, _ = nodes
    return (*_all_in_pairs(tuple(even)), *combinations(nodes[-3:], 2))


def _with_witnesses(proof: Proof) -> tuple[Members, ...]:
    """Steps 2 and 3 for nodes that nothing is proved of yet."""
    suspects = sorted(proof.unknown)
    if not suspects:
        return ()
    if not proof.sound:
        return _strangers(suspects, proof)
    trials = []
    load = Counter(dict.fromkeys(sorted(proof.sound), 0))
    for suspect in suspects:
        failed = len(proof.failed_with.get(suspect, ()))
        wanted = proof.witnesses_needed - failed if failed else 1
        for witness in _least_busy(load, suspect, proof)[:wanted]:
            load[witness] += 1
            trials.append(link_of(suspect, witness))
    return tuple(trials)


def _least_busy(load: Counter[int], suspect: int, proof: Proof) -> list[int]:
    """Return witnesses that a suspect has not met, those with little to do first, and of them those far away."""
    new = (node for node in load if link_of(node, suspect) not in proof.met)
    return sorted(new, key=lambda node: (load[node], -abs(node - suspect), node))[: proof.witnesses_needed]


def _strangers(suspects: Sequence[int], proof: Proof) -> tuple[Members, ...]:
    """Let nodes meet of which none is known to work, each another one than before."""
    rounds_before = max(Counter(node for link in proof.met for node in link).values(), default=0)
    if rounds_before > MOST_STRANGERS:
        return ()
    free, trials = list(suspects), []
    while free:
        node = free.pop(0)
        other = next((each for each in free if link_of(node, each) not in proof.met), None)
        if other is not None:
            free.remove(other)
            trials.append(link_of(node, other))
    return tuple(trials)


def _links_again(proof: Proof) -> tuple[Link, ...]:
    """Step 3 for pairs that failed although their ends work."""
    return tuple(sorted(link for link, count in proof.lone_links.items() if count < LINK_FAILURES))


def _among_bad(proof: Proof, most: int) -> tuple[Members, ...]:
    """Step 4. Nodes that have failed as bad ones do, and work with one another, are not bad."""
    alike = {node for node, peers in proof.failed_with.items() if len(peers) >= proof.witnesses_needed}
    free, trials = sorted(alike), []
    for node in sorted(proof.bad):
        known = sum(1 for other in alike if link_of(node, other) in proof.met)
        other = next((each for each in free if each != node and link_of(node, each) not in proof.met), None)
        if node in free and other is not None and known < most:
            free = [each for each in free if each not in (node, other)]
            trials.append(link_of(node, other))
    return tuple(trials)


def _on_other_islands(proof: Proof) -> tuple[Members, ...]:
    """Step 4. A bad node may have met the nodes of one side alone, and work with those of the other."""
    if len(proof.islands) > MOST_ISLANDS:
        return ()
    trials = []
    for node in sorted(proof.bad):
        for island in proof.islands:
            if not proof.failed_with[node] & island:
                trials.append(link_of(node, min(island, key=lambda other: (abs(other - node), other))))
    return tuple(trials)


def _across(proof: Proof) -> tuple[Members, ...]:
    """Step 5, where sets that work may be the sides of a divided network: first join them, then confirm the sides."""
    few = len(proof.islands) <= MOST_ISLANDS and bool(proof.failed_links or proof.unexplained())
    if len(proof.islands) < 2 or not (few or len(proof.failed_links) >= SUSPICIOUS_LINKS):
        return ()
    joining = _one_of_each(proof)
    if joining or len(proof.islands) > MOST_ISLANDS:
        return joining
    largest, *others = proof.islands
    load, trials = Counter(dict.fromkeys(sorted(largest), 0)), []
    for island in others:
        for node, wanted in proof.crossings_left(island).items():
            for witness in _least_busy(load, node, proof)[:wanted]:
                load[witness] += 1
                trials.append(link_of(node, witness))
    return tuple(trials)


def _one_of_each(proof: Proof) -> tuple[Members, ...]:
    """Let islands meet that have not, each one other at a time."""
    free, trials = set(proof.islands), []
    for one, other in proof.unmet_islands:
        if one in free and other in free:
            free -= {one, other}
            trials.append(link_of(min(one), min(other)))
    return tuple(trials)


def _far_apart(proof: Proof) -> tuple[Link, ...]:
    """Pairs at twice the distance of the round before."""
    nodes, distance = proof.nodes, 2
    while distance < len(nodes):
        pairs = [
            link_of(nodes[at], nodes[at ^ distance]) for at in range(len(nodes)) if at < at ^ distance < len(nodes)
        ]
        new = tuple(pair for pair in pairs if pair not in proof.met and proof.sound.issuperset(pair))
        if new:
            return new
        distance *= 2
    return ()


def _together(proof: Proof) -> tuple[Members, ...]:
    """Step 4."""
    if len(proof.bad_links) > MOST_LINKS_FOLLOWED:
        return ()
    rest = proof.without_bad_links()
    if proof.is_proved(rest):
        return ()
    if proof.failures[frozenset(rest)] < LINK_FAILURES:
        return (rest,)
    smallest = sorted(proof.unexplained(), key=lambda each: (len(each), each))[:MOST_NARROWED]
    return tuple(dict.fromkeys(trial for failed in smallest for trial in _narrower(failed, proof)))


def _narrower(failed: Members, proof: Proof) -> Iterator[Members]:
    """Yield the halves of a failed set, or where they work, quarters of both; nothing where all of that works."""
    halves = halves_of(failed)
    open_halves = [half for half in halves if not proof.is_proved(half)]
    left = open_halves or [part for part in parts_of(failed) if not proof.is_proved(part)]
    if not left and proof.failures[frozenset(failed)] < LINK_FAILURES:
        yield failed
    for part in left:
        if proof.failures[frozenset(part)] < LINK_FAILURES:
            yield part
