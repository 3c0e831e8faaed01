"""What we read of Kubernetes' lists and watches of pods: the few fields that say where agents and ranks are.

The API's reference: https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.30/#pod-v1-core
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from collector.agents.agent_source import PodPlace
from collector.gather.failures import NoAnswer
from shared.errors import quoted
from shared.missing import Reason
from shared.mistakes import first_mistake

_JOB_LABELS = (
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)
"""The labels in which training operators write the job's name, the most specific first."""

# {"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
#  "message":"too old resource version: 5 (9)","reason":"Expired","code":410}}         (in one line)
_ERROR = "ERROR"

_LONGEST = 300
_MOST_CONTAINERS = 64


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class _Owner(_Part):
    name: str = ""
    controller: bool = False


class _Meta(_Part):
    name: str = ""
    resource_version: str = ""
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
    resource_version: str = ""
    continue_: str | None = Field(default=None, alias="continue")


class Pod(_Part):
    """One pod."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def place(self) -> PodPlace:
        """Return what is shown of it beside the ranks that run in it."""
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
            address=None if self.status.pod_ip is None else self.status.pod_ip[:_LONGEST],
        )


class PodList(_Part):
    """One page of pods."""

    metadata: _ListMeta = _ListMeta()
    items: tuple[Pod, ...] = ()


class ChangeKind(StrEnum):
    """What a watch reports."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """Nothing of ours has changed, and the version has moved on."""


class Change(NamedTuple):
    """One line of a watch."""

    kind: ChangeKind
    version: str
    """From which the next watch may go on."""
    pod: PodPlace | None


class Expired(NoAnswer):
    """The server remembers no changes since that version: the pods must be listed again."""


class _Event(_Part):
    type: str
    object: dict[str, Any]


class _ErrorStatus(_Part):
    code: int = 0
    reason: str = ""
    message: str = ""


def parse_change(line: bytes) -> Change:
    """Read one line of a watch. Raises Expired and NoAnswer."""
    try:
        event = _Event.model_validate_json(line)
        if event.type == _ERROR:
            raise _ended(_ErrorStatus.model_validate(event.object))
        kind = ChangeKind(event.type)
        pod = Pod.model_validate(event.object)
    except ValidationError as error:
        raise NoAnswer(Reason.UNREADABLE, f"it is not a change of a pod: {first_mistake(error)}") from error
    except ValueError as error:
        raise NoAnswer(Reason.UNREADABLE, f"it is not a change of a pod: its type is {quoted(event.type)}") from error
    version = pod.metadata.resource_version
    if not 0 < len(version) <= _LONGEST:
        raise NoAnswer(Reason.UNREADABLE, "it is not a change of a pod: it has no version")
    return Change(kind, version, None if kind is ChangeKind.BOOKMARK else pod.place())


def _ended(status: _ErrorStatus) -> NoAnswer:
    detail = f"the API server ended the watch: {quoted(f'{status.code} {status.reason} {status.message}', most=200)}"
    if status.code == HTTPStatus.GONE or status.reason in ("Expired", "Gone"):
        return Expired(Reason.GONE, detail)
    return NoAnswer(Reason.UNREADABLE, detail)


def parse_pods(body: bytes) -> PodList:
    """Read one page. Raises NoAnswer."""
    try:
        return PodList.model_validate_json(body)
    except ValidationError as error:
        raise NoAnswer(Reason.UNREADABLE, f"it is not a list of pods: {first_mistake(error)}") from error


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
