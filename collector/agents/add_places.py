"""What the sources of agents know about a job, joined with the verdict on it.

1. Where do its ranks run, according to agents, now or earlier, and to Kubernetes' list of pods?
2. Silent nodes without a pod of the job are ignored; nodes of the job without a known agent count as silent.
   If ranks are missing: did all nodes on which the job runs answer? If that changes the input of the verdict, the job
   is judged again.
3. Names of pods and containers are added, and kept with the question, so that a bundle is judged the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from collector.agents.agent_source import PodPlace
from collector.agents.directory import Directory
from collector.agents.merging import KnownAgent
from collector.agents.pods_of_ranks import JobPlaces, places_of
from collector.align.expected import NodesAsked, Unanswered
from collector.align.pod_places import Places, PodFacts, RankPlace
from collector.gather.job_nodes import of_the_job, short_name, without_agent, without_ranks
from collector.gather.judge_and_stamp import judge
from collector.gather.namesakes import lists_apart
from collector.gather.pod_names import named
from collector.gather.swept import Sweep
from shared.answer.diagnosis import Diagnosis
from shared.wire.job_names import plain_name
from shared.wire.snapshot import Identity

_HAS_NO_PROCESSES = ("Pending", "Succeeded", "Failed")
_MOST_LOST = 64


class Known(NamedTuple):
    """What the sources of agents know at one moment."""

    agents: tuple[KnownAgent, ...] = ()
    pods: Mapping[str, PodPlace] = {}
    """By uid."""
    nodes: frozenset[str] | None = None
    """Of the job, where Slurm knows it."""

    @classmethod
    def of(cls, directory: Directory, job: str | None) -> "Known":
        """Ask the directory, which changes in the loop that this must be called from."""
        return cls(directory.agents(), directory.pods, directory.nodes_of(None if job is None else plain_name(job)))


def join(made: Sweep, known: Known) -> Sweep:
    """Return the sweep with what is known of its job."""
    identities = list(_identities(made))
    places = places_of(identities, known.pods)  # 1
    diagnosis, expected = made.diagnosis, made.expected
    unanswered = _unanswered(made, places, known)
    asked = _nodes_asked(made, places, known, unanswered)
    if (unanswered, asked) != (expected.unanswered, expected.nodes_asked):  # 2
        expected = expected.model_copy(update={"unanswered": unanswered, "nodes_asked": asked})
        again = judge(made.snapshots, expected)
        diagnosis = again.model_copy(update={"took_seconds": diagnosis.took_seconds})
    job_places = Places(
        ranks=_of_culprits(diagnosis, places, known),
        lost=tuple(facts for facts in map(_facts, places.others) if facts.is_unwell)[:_MOST_LOST],
        idle=_idle(identities, expected.unanswered, known.nodes),
    )
    expected = expected.model_copy(update={"places": job_places})
    return replace(made, expected=expected, diagnosis=named(diagnosis, job_places))  # 3


def _identities(made: Sweep) -> Iterator[Identity]:
    """All that is known of the job's ranks, what was seen last first."""
    job = made.diagnosis.job
    for snapshot in reversed(made.snapshots):
        yield from (rank.identity for rank in snapshot.ranks if rank.identity.job == job)
    for ranks in lists_apart(made.lists.values(), job, made.expected.user):
        yield from (rank for rank in ranks.ranks if rank.job == job)


def _unanswered(made: Sweep, places: JobPlaces, known: Known) -> tuple[Unanswered, ...]:
    unanswered = made.expected.unanswered
    if not places.ranks:
        return unanswered
    hosts = {agent.address.host for agent in known.agents if agent.asked}
    hosts |= {ranks.host for ranks in made.lists.values()} | {silent.host for silent in unanswered}
    if places.whole:
        unanswered = of_the_job(unanswered, frozenset(pod.node for pod in places.pods if pod.node is not None))
    return (*unanswered, *without_agent(_running_on(places.pods), hosts))


def _nodes_asked(made: Sweep, places: JobPlaces, known: Known, unanswered: Iterable[Unanswered]) -> NodesAsked:
    """Did every node of the job answer? Known only if a source knows the nodes; asked only if ranks are missing."""
    seen, wanted = made.diagnosis.coverage.seen, made.diagnosis.coverage.expected
    if wanted is None or seen >= wanted or not (places.whole or known.nodes):
        return NodesAsked.UNKNOWN
    nodes = {short_name(node) for node in known.nodes or ()}
    nodes |= {short_name(node) for node in _running_on(places.pods)} if places.whole else set()
    asked = [agent.address for agent in known.agents if agent.asked and agent.address.url in made.lists]
    answered = {short_name(host) for each in asked for host in (each.host, made.lists[each.url].host)}
    silent = {short_name(each.host) for each in unanswered}
    return NodesAsked.ALL if nodes <= answered - silent else NodesAsked.SOME


def _running_on(pods: Iterable[PodPlace]) -> Mapping[str, str]:
    """Return the nodes on which pods of the job run, and the first pod of each."""
    found: dict[str, str] = {}
    for pod in pods:
        if pod.node is not None and pod.phase not in _HAS_NO_PROCESSES:
            found.setdefault(pod.node, f"pod {pod.namespace}/{pod.name} of the job")
    return found


def _of_culprits(diagnosis: Diagnosis, places: JobPlaces, known: Known) -> tuple[RankPlace, ...]:
    """Return the places of the ranks that are named."""
    culprits = sorted({rank for finding in diagnosis.findings for rank in finding.culprit_ranks} & places.ranks.keys())
    agents = _agents(known.agents) if culprits else {}
    found = []
    for rank in culprits:
        pod, container, pid = places.ranks[rank]
        agent = agents.get(short_name(pod.node or ""))
        found.append(RankPlace(rank=rank, pod=_facts(pod), container=container, pid=pid, agent=agent))
    return tuple(found)


def _agents(agents: Iterable[KnownAgent]) -> dict[str, PodFacts]:
    """Return the agents' pods, by their nodes' names."""
    return {
        short_name(agent.address.host): PodFacts(namespace=agent.labels["namespace"], name=agent.labels["pod"])
        for agent in agents
        if "kubernetes" in agent.learnt_from and {"namespace", "pod"} <= agent.labels.keys()
    }


def _idle(
    identities: Iterable[Identity], silent: Iterable[Unanswered], given: frozenset[str] | None
) -> tuple[str, ...]:
    """Return the nodes that Slurm gave the job, and that answer and have no rank of it."""
    hosts = {identity.host for identity in identities if identity.host is not None}
    return () if given is None else without_ranks(given, hosts, (each.host for each in silent))


def _facts(pod: PodPlace) -> PodFacts:
    return PodFacts(
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node,
        phase=pod.phase,
        reason=pod.reason,
        restarts=pod.restarts,
    )
