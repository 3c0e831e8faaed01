"""Which nodes to try together next.

After a trial of all nodes failed:

1. Disjoint pairs. Members of pairs that pass work.
2. Each member of a failed pair meets one node that works.
3. Who fails there as well meets more of them, until it passes or is bad; a failed pair whose ends work is tried again.
4. All that work are tried together. Where that fails twice, halves of them, then quarters of one half with those of
   the other, down to a link, or to a size below which nothing fails.

Fewer than half of the nodes being bad, at least one pair passes in round 1, so that round 2 finds all nodes that work
and round 3 names all bad ones, however these were paired. (Where the number is odd, the last three meet one another.)
A round holds what is known to be useful before it begins; `waves` says what of it can run at the same time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from cli.preflight.search.proof import LINK_FAILURES, Link, Members, Proof, Tried, halves_of, link_of, parts_of

MOST_STRANGERS = 3
"""Rounds in which nodes meet of which none is known to work, before the search gives up."""

MOST_NARROWED = 8
"""Failed sets that are halved at the same time: where links fail by the hundred, a few of them say enough."""

MOST_LINKS_FOLLOWED = 24
"""Bad links after which no more are looked for: then it is no single link, and the report says so."""


def next_round(nodes: Iterable[int], tried: Iterable[Tried]) -> tuple[Members, ...]:
    """Return the trials of the next round, most useful first; none where no further trial would prove anything."""
    proof = Proof.of(nodes, tried)
    if len(proof.nodes) < 2 or proof.is_proved(proof.nodes):
        return ()
    if not proof.met:
        return _all_in_pairs(proof.nodes)
    trials = (*_with_witnesses(proof), *_links_again(proof))
    return trials or _together(proof)


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
    return tuple(sorted(link for link, count in proof.failed_links.items() if count < LINK_FAILURES))


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
