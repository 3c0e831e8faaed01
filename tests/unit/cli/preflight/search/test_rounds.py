"""The search on clusters of which the truth is known: who is named, when, and that nobody else is."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.preflight.search.proof import Proof, Tried, at_scale
from cli.preflight.search.rounds import Breadth, next_round, waves
from tests.build.simulation.nodes import Cluster, Search, random_cluster


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Fewer than half of the nodes are bad, and no link is."""
    size = draw(st.integers(3, 40))
    bad = draw(st.sets(st.integers(0, size - 1), max_size=(size - 1) // 2))
    return Cluster(size, frozenset(bad))


@given(clusters())
def test_fewer_than_half_are_named_within_three_rounds(cluster: Cluster) -> None:
    """However bad nodes were paired, after the trial of all nodes failed; and nothing stays unknown."""
    search = Search(cluster)
    proof = search.run()
    assert (proof.bad, proof.bad_links, proof.unknown) == (cluster.bad, frozenset(), frozenset())
    assert not cluster.bad or (search.bad_named_after or 0) <= 3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("bad", "links"), [(1, 0), (0, 1), (3, 2), (10, 4)])
def test_faults_of_many_nodes(bad: int, links: int, seed: int) -> None:
    """Bad nodes and bad links mixed: no good node is accused, no link that works, and the rest works together."""
    cluster = random_cluster(120, bad=bad, links=links, seed=seed)
    search = Search(cluster)
    proof = search.run()
    assert (proof.bad, proof.unknown) == (cluster.bad, frozenset())
    assert proof.bad_links <= cluster.links
    assert bad == 0 or (search.bad_named_after or 0) <= 3
    assert cluster.passes(proof.without_bad_links()) and proof.is_proved(proof.without_bad_links())


@given(st.integers(2, 30), st.integers(0, 30), st.integers(0, 60), st.integers(0, 1_000))
def test_nobody_is_accused_without_proof(size: int, bad: int, links: int, seed: int) -> None:
    """Also where most nodes are bad, or links fail in any number: a named link is bad, a named node works with nobody
    of those that it was tried with."""
    cluster = random_cluster(size, bad=min(bad, size), links=links, seed=seed)
    search = Search(cluster)
    proof = search.run()
    assert proof.bad_links <= cluster.links
    assert proof.sound <= frozenset(cluster.nodes) - cluster.bad
    for node in proof.bad - cluster.bad:
        peers = proof.failed_with[node]
        assert len(peers) >= 2 and all(tuple(sorted((node, peer))) in cluster.links for peer in peers)


@pytest.mark.parametrize("pair", [(4, 5), (0, 15), (7, 8)])
def test_two_bad_nodes_that_met_each_other(pair: tuple[int, int]) -> None:
    """Each is named for itself."""
    search = Search(Cluster(16, frozenset(pair)))
    assert search.run().bad == frozenset(pair)
    assert search.bad_named_after == 3


def test_two_nodes_cannot_be_told_apart() -> None:
    """Nobody works with either of them, so neither is named, and neither is the link between them."""
    proof = Search(Cluster(2, frozenset({1}))).run()
    assert (proof.sound, proof.bad, proof.bad_links, proof.unknown) == (set(), set(), set(), {0, 1})


def test_where_no_node_works_none_is_named() -> None:
    """The search gives up; all of them being bad is as likely as what they share."""
    proof = Search(Cluster(9, frozenset(range(9)))).run()
    assert (proof.bad, proof.unknown) == (frozenset(), frozenset(range(9)))


def test_a_link_that_no_pair_uses_is_found_by_halves() -> None:
    """All disjoint pairs pass; the trial of all nodes does not."""
    proof = Search(Cluster(64, links=frozenset({(3, 40)}))).run()
    assert (proof.bad, proof.bad_links) == (frozenset(), {(3, 40)})


@pytest.mark.parametrize("fails_from", [3, 9, 17, 32])
def test_a_fault_that_only_size_shows_accuses_nobody(fails_from: int) -> None:
    """The set that fails is known, and that both halves of it work."""
    proof = Search(Cluster(32, fails_from=fails_from)).run()
    assert (proof.bad, proof.bad_links) == (frozenset(), frozenset())
    assert all(fails_from <= len(each) for each in at_scale(proof)) and at_scale(proof)


def test_a_failure_that_does_not_come_back_accuses_nobody() -> None:
    """A pair that failed once and then passed is a fault that comes and goes, and is said to be that."""
    tried = [Tried((0, 1, 2, 3), False), Tried((0, 1), False), Tried((2, 3), True)]
    tried += [Tried((0, 2), True), Tried((1, 3), True)]
    assert next_round(range(4), tried) == ((0, 1),)
    proof = Proof.of(range(4), [*tried, Tried((0, 1), True)])
    assert (proof.bad_links, proof.flaky) == (frozenset(), (frozenset({0, 1}),))


@given(clusters(), st.randoms())
def test_the_order_of_outcomes_does_not_matter(cluster: Cluster, chance: random.Random) -> None:
    """The same outcomes, shuffled, prove the same."""
    search = Search(cluster)
    proof = search.run()
    chance.shuffle(search.tried)
    again = search.proof
    assert (again.bad, again.sound, again.bad_links) == (proof.bad, proof.sound, proof.bad_links)


def test_waves_share_no_node() -> None:
    """Trials that need the same node run one after the other, all others at the same time."""
    assert waves([(0, 1), (2, 3), (1, 2), (4, 5)]) == (((0, 1), (2, 3), (4, 5)), ((1, 2),))


@st.composite
def divided(draw: st.DrawFn) -> Cluster:
    """A network of which two nodes or more reach no others, and bad nodes on the larger side, too few to hide it."""
    size = draw(st.integers(8, 40))
    side = draw(st.sets(st.integers(0, size - 1), min_size=2, max_size=size // 2))
    others = sorted(set(range(size)) - side)
    bad = draw(st.sets(st.sampled_from(others), max_size=1))
    return Cluster(size, frozenset(bad), side=frozenset(side))


@pytest.mark.parametrize("breadth", [Breadth.ALL_SIZES, Breadth.FAR_PAIRS])
@given(cluster=divided())
def test_a_divided_network_accuses_no_side(breadth: Breadth, cluster: Cluster) -> None:
    """Nodes that work with one another are not bad, however few; bad nodes on either side still are."""
    proof = Search(cluster, breadth).run()
    accused = proof.bad - cluster.bad
    assert not accused, (cluster, proof.split)
    assert proof.bad_links == frozenset()


@pytest.mark.parametrize("breadth", [Breadth.ALL_SIZES, Breadth.FAR_PAIRS])
@pytest.mark.parametrize("side", [range(8), range(0, 16, 2), (3, 6), (14, 15), (3, 7, 12), range(4, 11)])
def test_both_sides_of_a_divided_network_are_named(breadth: Breadth, side: Sequence[int]) -> None:
    """The larger one goes on; of two alike, the one with the first node."""
    search = Search(Cluster(16, side=frozenset(side)), breadth)
    proof = search.run()
    assert {frozenset(each) for each in proof.split} == {frozenset(side), frozenset(range(16)) - frozenset(side)}
    assert (proof.bad, proof.unknown, proof.bad_links) == (frozenset(), frozenset(), frozenset())
    assert breadth is Breadth.FAR_PAIRS or proof.is_proved(proof.without_bad_links())


def test_far_pairs_find_a_link_that_near_pairs_do_not_use() -> None:
    """Nodes 3 and 7 are at a distance of four."""
    assert Search(Cluster(16, links=frozenset({(3, 7)})), Breadth.FAR_PAIRS).run().bad_links == {(3, 7)}


def test_a_node_that_works_at_times_is_named() -> None:
    """It failed with three, and passed with two of them the next time; with one of them it failed twice."""
    tried = [Tried((0, 1, 2, 3, 4), False), Tried((0, 1), True), Tried((2, 3), True), Tried((0, 2), True)]
    tried += [Tried(pair, ok) for pair in ((0, 4), (1, 4)) for ok in (False, True)]
    assert Proof.of(range(5), tried).unsteady == frozenset()
    proof = Proof.of(range(5), [*tried, Tried((3, 4), False), Tried((3, 4), False)])
    assert (proof.unsteady, proof.bad, proof.without_bad_links()) == ({4}, frozenset(), (0, 1, 2, 3))
