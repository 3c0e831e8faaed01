"""What we read of Kubernetes' list of pods: the few fields that say where agents and ranks are.

The API's reference: https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.30/#pod-v1-core
"""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from collector.discovery.sightings import PodPlace
from collector.failures import NoAnswer, first_mistake
from shared.missing import Reason

_JOB_LABELS = (
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)
"""Where those who make pods for training write the name of the job, the most telling first."""

_LONGEST = 300
_MOST_CONTAINERS = 64


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class _Owner(_Part):
    name: str = ""
    controller: bool = False


class _Meta(_Part):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[_Owner, ...] = ()


class _Spec(_Part):
    node_name: str | None = None


class _Ended(_Part):
    reason: str | None = None


class _State(_Part):
    waiting: _Ended | None = None
    terminated: _Ended | None = None


class _Container(_Part):
    name: str = ""
    container_id: str = Field(default="", alias="containerID")
    restart_count: int = 0
    state: _State = _State()
    last_state: _State = _State()


class _Status(_Part):
    phase: str = ""
    reason: str | None = None
    pod_ip: str | None = Field(default=None, alias="podIP")
    container_statuses: tuple[_Container, ...] = ()


class _ListMeta(_Part):
    continue_: str | None = Field(default=None, alias="continue")


class Pod(_Part):
    """One pod."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def runs(self) -> bool:
        """May an agent in it answer?"""
        return self.status.phase == "Running" and bool(self.status.pod_ip)

    def place(self) -> PodPlace:
        """Return what is told of it beside the ranks that run in it."""
        statuses = self.status.container_statuses[:_MOST_CONTAINERS]
        return PodPlace(
            uid=self.metadata.uid[:_LONGEST],
            namespace=self.metadata.namespace[:_LONGEST],
            name=self.metadata.name[:_LONGEST],
            node=None if self.spec.node_name is None else self.spec.node_name[:_LONGEST],
            job=_job(self.metadata),
            phase=self.status.phase[:_LONGEST],
            reason=", ".join(dict.fromkeys(_reasons(self.status)))[:_LONGEST],
            restarts=sum(container.restart_count for container in statuses),
            containers=_containers(statuses),
        )


class PodList(_Part):
    """One page of pods."""

    metadata: _ListMeta = _ListMeta()
    items: tuple[Pod, ...] = ()


def parse_pods(body: bytes) -> PodList:
    """Read one page. Raises NoAnswer."""
    try:
        return PodList.model_validate_json(body)
    except ValidationError as error:
        raise NoAnswer(Reason.UNREADABLE, f"it is no list of pods: {first_mistake(error)}") from error


def _job(found: _Meta) -> str | None:
    named = (found.labels.get(label) for label in _JOB_LABELS)
    owners = (owner.name for owner in found.owner_references if owner.controller)
    name = next((name for name in (*named, *owners) if name), None)
    return None if name is None else name[:_LONGEST]


def _reasons(status: _Status) -> Iterator[str]:
    """Why it is not as it should be: `Evicted`, `CrashLoopBackOff`, `OOMKilled` of the run before."""
    if status.reason:
        yield status.reason
    for container in status.container_statuses[:_MOST_CONTAINERS]:
        for state in (container.state.waiting, container.state.terminated, container.last_state.terminated):
            if state is not None and state.reason and state.reason != "Completed":
                yield state.reason


def _containers(statuses: tuple[_Container, ...]) -> Mapping[str, str]:
    # containerd://8d9f0c...   (64 hexadecimal digits)
    return {
        status.container_id.rpartition("://")[2][:_LONGEST]: status.name[:_LONGEST]
        for status in statuses
        if status.container_id
    }
