"""The answer: a contract for bots, and what every rendering shows."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from shared import SCHEMA_VERSION
from shared.answer.checks import Check
from shared.answer.files_read import FileRead
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.missing import Missing, Reason
from shared.rank_sets import FoldedRanks
from shared.value import Value


class Contract(Value):
    """Base of the answer's parts: frozen, every field always present."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Culprit(Contract):
    """A rank at fault, as far as it is identified."""

    rank: int
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    gpu: str | None = Field(
        default=None, description="The device that it uses: the driver's number, else as in its environment."
    )
    pod: str | None = Field(default=None, description="`NAMESPACE/NAME` of the pod that it runs in, on Kubernetes.")
    container: str | None = Field(default=None, description="The container's name within the pod.")


class GroupRef(Contract):
    """A process group, known by its name and members."""

    name: str
    description: str = ""
    ranks: FoldedRanks = ""


class Place(Contract):
    """One frame. `line` is 0 if unknown."""

    function: str
    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line})" if self.line else f"{self.function} ({self.file})"


class Where(Contract):
    """Where the culprit is now."""

    user: Place | None = Field(default=None, description="Innermost frame in user code.")
    library: Place | None = Field(default=None, description="Innermost frame.")
    call: Place | None = Field(
        default=None,
        description="The call in the training loop: where its stack parts from those of the other ranks.",
    )
    thread: str = ""
    process: str = Field(default="", description="The process in words, e.g. `sleeping in clock_nanosleep`.")
    child: str = Field(default="", description="A child process that it waits for, and where that is.")


class Wait(Contract):
    """One edge of the wait-for graph."""

    rank: int
    waits_for: FoldedRanks
    group: GroupRef | None = None
    op: str | None = None
    sequence: int | None = None
    call_site: Place | None = None


class LinkEnd(Contract):
    rank: int | None = None
    host: str | None = None


class Link(Contract):
    """A network path under suspicion: always both ends."""

    from_: LinkEnd = Field(alias="from", serialization_alias="from")
    to: LinkEnd
    interface: str | None = None


class _Evidence(Contract):
    ranks: FoldedRanks = Field(description="The ranks that it is about.")
    text: str = Field(description="One sentence for a person.")


class SequenceEvidence(_Evidence):
    """How far the ranks of a group are, by the last operation that each issued."""

    kind: Literal["sequence"] = "sequence"
    group: GroupRef
    lane: Literal["collective", "p2p"] = "collective"
    sequence: int
    issued: dict[str, FoldedRanks] = Field(description="Last sequence issued -> ranks; `unknown` if not known.")
    waiting: FoldedRanks = ""
    absent: FoldedRanks = ""
    waited_seconds: float | None = None


class Side(Contract):
    """Ranks that agree on what an operation is."""

    ranks: FoldedRanks
    op: str
    sizes: str = ""
    dtypes: str = ""
    call_site: Place | None = None


class SignatureEvidence(_Evidence):
    """Same group, same sequence, different operations."""

    kind: Literal["signature"] = "signature"
    group: GroupRef
    sequence: int
    sides: tuple[Side, ...]


class WaitEvidence(_Evidence):
    """Edges of the wait-for graph that lead to the culprit."""

    kind: Literal["wait"] = "wait"
    waits: tuple[Wait, ...]


class StackEvidence(_Evidence):
    kind: Literal["stack"] = "stack"
    thread: str = ""
    frames: tuple[Place, ...] = Field(description="Outermost first.")


class ProcessEvidence(_Evidence):
    kind: Literal["process"] = "process"
    host: str | None = None
    pid: int | None = None
    state: str | None = None
    exit_code: int | None = None
    signal: int | None = None


class AbsenceEvidence(_Evidence):
    """Ranks that should be there and were not found."""

    kind: Literal["absence"] = "absence"
    reason: Reason


class LogEvidence(_Evidence):
    kind: Literal["log"] = "log"
    path: str = ""
    line: str


class FdEvidence(_Evidence):
    kind: Literal["fd"] = "fd"
    pid: int | None = None
    fd: int | None = None
    target: str | None = None


class MotionEvidence(_Evidence):
    """Which ranks made progress between two looks."""

    kind: Literal["motion"] = "motion"
    seconds: float
    moved: FoldedRanks = ""
    frozen: FoldedRanks = ""


class LagEvidence(_Evidence):
    """A straggler's arrival compared with the others'."""

    kind: Literal["lag"] = "lag"
    group: GroupRef
    lag_seconds: float
    period_seconds: float
    last_in: int = Field(description="In how many of `of` sequences it was last.")
    of: int


class KernelEvidence(_Evidence):
    """A line of a node's kernel log."""

    kind: Literal["kernel"] = "kernel"
    host: str | None = None
    line: str
    at: float | None = Field(default=None, description="Unix seconds of the first such line.")
    count: int = Field(default=1, description="How often it was printed.")


class GpuEvidence(_Evidence):
    """What the driver reports about one GPU."""

    kind: Literal["gpu"] = "gpu"
    host: str | None = None
    index: int
    device: str | None = Field(default=None, description="PCI address.")


class PortEvidence(_Evidence):
    """What the kernel reports about one network port."""

    kind: Literal["port"] = "port"
    host: str | None = None
    port: str = Field(description="`mlx5_0/1`, or an interface's name.")


class PodEvidence(_Evidence):
    """What Kubernetes reports about one pod of the job."""

    kind: Literal["pod"] = "pod"
    pod: str = Field(description="`NAMESPACE/NAME`")
    container: str | None = None
    host: str | None = Field(default=None, description="Its node.")
    phase: str = Field(default="", description="Running, Pending, Failed …")
    reason: str = Field(default="", description="What is or was wrong: `OOMKilled`, `Evicted` …")
    restarts: int = 0


Evidence = Annotated[
    SequenceEvidence
    | SignatureEvidence
    | WaitEvidence
    | StackEvidence
    | ProcessEvidence
    | AbsenceEvidence
    | LogEvidence
    | FdEvidence
    | MotionEvidence
    | LagEvidence
    | KernelEvidence
    | GpuEvidence
    | PortEvidence
    | PodEvidence,
    Field(discriminator="kind"),
]


class NextStep(Contract):
    """What to do next; `command`, if any, can be pasted as it is."""

    text: str
    command: str | None = None


class Finding(Contract):
    """One fault and its evidence."""

    kind: Kind
    cause: Cause = Cause.UNKNOWN
    certainty: Certainty
    certainty_reason: str = Field(default="", description="Why it is so certain and no more; empty if kept long ago.")
    culprits: tuple[Culprit, ...] = ()
    victims: FoldedRanks = ""
    group: GroupRef | None = None
    op: str | None = None
    sequence: int | None = None
    cycle: tuple[Wait, ...] = ()
    links: tuple[Link, ...] = ()
    where: Where | None = None
    since: str | None = Field(
        default=None,
        description="Since when it stands, RFC 3339, UTC: when the oldest operation in it was issued, else since when "
        "at least its ranks have been seen to stand still. None: not known.",
    )
    lasted_seconds: float | None = Field(default=None, description="How long, at the last look; None: not known.")
    summary: str = Field(default="", description="The finding in one sentence.")
    remarks: tuple[str, ...] = Field(default=(), description="Caveats: what limits the finding or speaks against it.")
    evidence: tuple[Evidence, ...] = ()
    next_steps: tuple[NextStep, ...] = ()

    @property
    def culprit_ranks(self) -> tuple[int, ...]:
        return tuple(c.rank for c in self.culprits)


class StackClass(Contract):
    """Ranks at the same place, by the thread that trains: usually the main one."""

    ranks: FoldedRanks
    frames: tuple[Place, ...] = Field(description="Outermost first.")
    label: str = ""


class Gap(Contract):
    """What could not be read: for which ranks or host, from which source, and why."""

    ranks: FoldedRanks = ""
    host: str | None = None
    missing: Missing


class Coverage(Contract):
    """How much was examined. Counts are ranks."""

    expected: int | None = None
    seen: int = 0
    answered: int = 0
    with_stacks: int = 0
    with_trace: int = 0
    missing: tuple[Gap, ...] = ()


class Conflict(Contract):
    """Two sources that contradict each other; reported, never averaged."""

    sources: tuple[str, ...]
    text: str


class Diagnosis(Contract):
    """The verdict on one job, with everything it rests on."""

    schema_version: int = SCHEMA_VERSION
    id: str = ""
    job: str | None = None
    user: str | None = Field(
        default=None, description="The job's owner: a user id, `c1000` inside a container; None: unknown."
    )
    made_at: str = Field(default="", description="RFC 3339, UTC.")
    took_seconds: float = 0.0
    verdict: Verdict
    state: Literal["running", "idle", "finished"] | None = Field(
        default=None, description="Only for `not_hung`: what the job is doing; `finished` with a finding: it died."
    )
    headline: str
    findings: tuple[Finding, ...] = ()
    next_steps: tuple[NextStep, ...] = Field(default=(), description="What to do beside the steps of the findings.")
    stack_classes: tuple[StackClass, ...] = ()
    checks: tuple[Check, ...] = Field(default=(), description="What is wrong or risky in how the job was started.")
    coverage: Coverage = Coverage()
    read: tuple[FileRead, ...] = Field(default=(), description="What was read of each file; none where a job was live.")
    conflicts: tuple[Conflict, ...] = ()
