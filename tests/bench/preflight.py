"""The search for bad nodes among a thousand: rounds, trials and accusations against the truth."""

from statistics import mean

from tests.build.simulation.nodes import Search, random_cluster

SIZE = 1000
SEEDS = range(5)
FAULTS = ((1, 0), (0, 1), (1, 1), (5, 3), (20, 5), (40, 0), (40, 10))
"""Bad nodes, bad links."""


def measure() -> dict[str, str]:
    """Return a row for each number of faults, over several clusters."""
    return {f"{SIZE:,} nodes, {bad} bad, {links} bad links": _row(bad, links) for bad, links in FAULTS}


def _row(bad: int, links: int) -> str:
    named = linked = wrong = 0
    rounds, all_rounds, trials, steps = [], [], [], []
    for seed in SEEDS:
        cluster = random_cluster(SIZE, bad=bad, links=links, seed=seed)
        search = Search(cluster)
        proof = search.run()
        named += len(proof.bad & cluster.bad)
        linked += len(proof.bad_links & cluster.links)
        wrong += len(proof.bad - cluster.bad) + len(proof.bad_links - cluster.links)
        rounds.append(search.bad_named_after or 0)
        all_rounds.append(search.rounds)
        trials.append(len(search.tried))
        steps.append(search.waves)
    return (
        f"{named} of {bad * len(SEEDS)} nodes and {linked} of {links * len(SEEDS)} links named, {wrong} wrongly; "
        f"nodes named after {max(rounds) if bad else 0} rounds, "
        f"all after {mean(all_rounds):.0f}; {mean(trials):.0f} trials in {mean(steps):.0f} steps"
    )
