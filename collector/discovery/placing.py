"""Ranks joined to the pods that they run in: agents tell the pod's uid, Kubernetes tells everything else of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from pydantic import Field

from collector.discovery.sightings import PodPlace
from shared.ranks import FoldedRanks, fold
from shared.snapshot import Identity
from shared.value import Value


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


def pods_of(ranks: Iterable[Identity], pods: Mapping[str, PodPlace]) -> tuple[JobPod, ...]:
    """Return the pods of the job that `ranks` are of: those with ranks, and their siblings that have none.

    A sibling is a pod of the same namespace and job by Kubernetes' labels; where one has no ranks, that is evidence.
    """
    running: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for rank in ranks:
        if rank.pod_uid is not None and rank.pod_uid in pods:
            running[rank.pod_uid, rank.container_id].append(rank.rank)
    seen = {uid for uid, _ in running}
    jobs = {(pods[uid].namespace, pods[uid].job) for uid in seen if pods[uid].job is not None}
    with_ranks = [_pod(pods[uid], container, there) for (uid, container), there in running.items()]
    without = [_pod(p, None, ()) for p in pods.values() if (p.namespace, p.job) in jobs and p.uid not in seen]
    return tuple(sorted((*with_ranks, *without), key=lambda pod: (pod.namespace, pod.name, pod.container or "")))


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
