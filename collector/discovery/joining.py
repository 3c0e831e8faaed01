"""What the sources of agents know of a job, joined with the verdict on it.

1. Where do its ranks run, by what agents say of them, now or before, and by Kubernetes' list of pods?
2. Silent nodes that have no pod of the job are no concern of it; its nodes where no agent is known are silent nodes.
   Where that changes what was judged, it is judged again.
3. Names of pods and containers are added.
"""

from collections.abc import Iterator
from dataclasses import replace

from collector.diagnose.expected import Expected
from collector.discovery.directory import Directory
from collector.discovery.naming import hosts_of, named
from collector.discovery.placing import JobPlaces, places_of
from collector.job_nodes import of_the_job, short_name, without_agent, without_ranks
from collector.judgement import judge
from collector.sweep import Sweep
from shared.snapshot import Identity


def join(made: Sweep, directory: Directory) -> Sweep:
    """Return the sweep with what the directory knows of its job."""
    places = _places(made, directory)
    expected = _expected(made, places, directory)
    diagnosis = made.diagnosis
    if expected != made.expected:
        again = judge(made.snapshots, expected)
        diagnosis = again.model_copy(update={"took_seconds": diagnosis.took_seconds})
    return replace(made, expected=expected, diagnosis=named(diagnosis, places))


def _places(made: Sweep, directory: Directory) -> JobPlaces:
    """Step 1."""
    identities = list(_identities(made))
    pods = directory.pods
    places = places_of(identities, pods) if pods else JobPlaces()
    given = directory.nodes_of(made.diagnosis.job) or frozenset()
    hosts = {identity.host for identity in identities if identity.host is not None}
    idle = without_ranks(given, hosts, (silent.host for silent in made.expected.unanswered)) if given else ()
    agents = {
        short_name(agent.address.host): (agent.labels["namespace"], agent.labels["pod"])
        for agent in (directory.agents() if places.ranks else ())
        if "kubernetes" in agent.learnt_from and {"namespace", "pod"} <= agent.labels.keys()
    }
    return replace(places, agents=agents, idle=idle)


def _identities(made: Sweep) -> Iterator[Identity]:
    """All that is known of the job's ranks, what was seen last first."""
    job = made.diagnosis.job
    for snapshot in reversed(made.snapshots):
        yield from (rank.identity for rank in snapshot.ranks if rank.identity.job == job)
    for ranks in made.lists.values():
        yield from (rank for rank in ranks.ranks if rank.job == job)


def _expected(made: Sweep, places: JobPlaces, directory: Directory) -> Expected:
    """Step 2."""
    expected = made.expected
    if not places.ranks:
        return expected
    told = expected.unanswered
    if places.whole:
        told = of_the_job(told, frozenset(pod.node for pod in places.pods if pod.node is not None))
    known = {agent.address.host for agent in directory.agents() if agent.asked}
    known |= {ranks.host for ranks in made.lists.values()} | {silent.host for silent in expected.unanswered}
    told = (*told, *without_agent(hosts_of(places.pods), known))
    return expected if told == expected.unanswered else expected.model_copy(update={"unanswered": told})
