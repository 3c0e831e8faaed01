"""Ranks joined with the pods that they run in: agents report the pod's uid, Kubernetes everything else."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from pydantic import Field

from collector.agents.agent_source import PodPlace
from shared.rank_sets import FoldedRanks, fold
from shared.value import Value
from shared.wire.snapshot import Identity


class JobPod(Value):
    """A pod of a job."""

    namespace: str
    name: str = Field(examples=["llama-worker-3"])
    container: str | None = Field(default=None, description="The container in which the ranks run.")
    node: str | None = None
    job: str | None = Field(default=None, description="The job by Kubernetes' name, which its ranks do not know.")
    ranks: FoldedRanks = ""
    phase: str = Field(default="", description="Running, Pending, Failed …")
    reason: str = Field(default="", description="What is wrong with it or was before: `OOMKilled`, `Evicted` …")
    restarts: int = 0


class Placed(NamedTuple):
    """Where one rank runs."""

    pod: PodPlace
    container: str | None
    pid: int | None
    """Its process id as the container sees it."""


class JobPlaces(NamedTuple):
    """Where the ranks of one job run, as far as Kubernetes knows."""

    ranks: Mapping[int, Placed]
    others: tuple[PodPlace, ...]
    """Pods of the job in which no rank is seen."""
    whole: bool
    """Does Kubernetes know the job of every rank's pod, so that its pods are all there are?"""

    @property
    def pods(self) -> tuple[PodPlace, ...]:
        """All pods of the job."""
        return tuple({place.pod.key: place.pod for place in self.ranks.values()}.values()) + self.others


def places_of(ranks: Iterable[Identity], pods: Mapping[str, PodPlace]) -> JobPlaces:
    """Return where ranks of one job run. Of two words about one rank the first counts."""
    found: dict[int, Placed] = {}
    whole = True
    for rank in ranks:
        pod = None if rank.pod_uid is None else pods.get(rank.pod_uid)
        whole = whole and pod is not None and pod.job is not None
        if pod is not None:
            container = None if rank.container_id is None else pod.containers.get(rank.container_id)
            found.setdefault(rank.rank, Placed(pod, container, rank.container_pid))
    others = _siblings({place.pod.uid for place in found.values()}, pods)
    return JobPlaces(found, others, whole and bool(found))


def namespaces_of(ranks: Iterable[Identity], pods: Mapping[str, PodPlace]) -> frozenset[str | None]:
    """Return the namespaces of the pods in which these ranks run; None is one of them where a pod is not known."""
    places = (None if rank.pod_uid is None else pods.get(rank.pod_uid) for rank in ranks)
    return frozenset(None if place is None else place.namespace for place in places)


def pods_of(ranks: Iterable[Identity], pods: Mapping[str, PodPlace]) -> tuple[JobPod, ...]:
    """Return the pods of the job that `ranks` are of: those with ranks, and their siblings that have none.

    A sibling is a pod of the same namespace and job by Kubernetes' labels; where one has no ranks, that is evidence.
    """
    running: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for rank in ranks:
        if rank.pod_uid is not None and rank.pod_uid in pods:
            running[rank.pod_uid, rank.container_id].append(rank.rank)
    with_ranks = [_pod(pods[uid], container, there) for (uid, container), there in running.items()]
    without = [_pod(pod, None, ()) for pod in _siblings({uid for uid, _ in running}, pods)]
    return tuple(sorted((*with_ranks, *without), key=lambda pod: (pod.namespace, pod.name, pod.container or "")))


def _siblings(uids: Collection[str], pods: Mapping[str, PodPlace]) -> tuple[PodPlace, ...]:
    """Return the other pods of the same jobs."""
    jobs = {(pods[uid].namespace, pods[uid].job) for uid in uids if pods[uid].job is not None}
    found = [pod for pod in pods.values() if (pod.namespace, pod.job) in jobs and pod.uid not in uids] if jobs else []
    return tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name, pod.uid)))


def _pod(pod: PodPlace, container: str | None, ranks: Iterable[int]) -> JobPod:
    return JobPod(
        namespace=pod.namespace,
        name=pod.name,
        container=None if container is None else pod.containers.get(container),
        node=pod.node,
        job=pod.job,
        ranks=fold(ranks),
        phase=pod.phase,
        reason=pod.reason,
        restarts=pod.restarts,
    )
