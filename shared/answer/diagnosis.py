"""The answer: a contract for bots, and what every rendering shows."""

from typing import Annotated, Literal

from pydantic import Field

from shared import SCHEMA_VERSION
from shared.answer.action import Action as Action
from shared.answer.checks import Check
from shared.answer.contract import Contract as Contract
from shared.answer.contract import EvidenceOfRanks
from shared.answer.files_read import FileRead
from shared.answer.log_line import LogLine
from shared.answer.node_evidence import GpuEvidence as GpuEvidence
from shared.answer.node_evidence import KernelEvidence as KernelEvidence
from shared.answer.node_evidence import PodEvidence as PodEvidence
from shared.answer.node_evidence import PortEvidence as PortEvidence
from shared.answer.statements import Statement
from shared.answer.waits import ChainLink as ChainLink
from shared.answer.waits import GroupRef as GroupRef
from shared.answer.waits import Place as Place
from shared.answer.waits import Wait as Wait
from shared.answer.words import Cause, Certainty, Kind, Verdict, WorkMeans
from shared.missing import Missing, Reason
from shared.rank_sets import FoldedRanks
from shared.wire.stacks import AwaitedKind


class Culprit(Contract):
    """A rank at fault, as far as it is identified."""

    rank: int
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    gpu: str | None = Field(default=None, description="Its device: the driver's number, else as in its environment.")
    pod: str | None = Field(default=None, description="`NAMESPACE/NAME` of the pod that it runs in, on Kubernetes.")
    container: str | None = Field(default=None, description="The container's name within the pod.")


class Where(Contract):
    """Where the culprit is; of one that has ended, where it was when the job was found so."""

    user: Place | None = Field(default=None, description="Innermost frame in user code.")
    library: Place | None = Field(default=None, description="Innermost frame.")
    call: Place | None = Field(
        default=None,
        description="The call in the training loop: where its stack parts from those of the other ranks.",
    )
    thread: str = ""
    process: str = Field(default="", description="The process in words, e.g. `sleeping in clock_nanosleep`.")
    child: str = Field(default="", description="A child process that it waits for, and where that is.")


class LinkEnd(Contract):
    rank: int | None = None
    host: str | None = None


class Link(Contract):
    """A network path under suspicion: always both ends."""

    from_: LinkEnd = Field(alias="from", serialization_alias="from")
    to: LinkEnd
    interface: str | None = None


class SequenceEvidence(EvidenceOfRanks):
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


class SignatureEvidence(EvidenceOfRanks):
    """Same group, same sequence, different operations."""

    kind: Literal["signature"] = "signature"
    group: GroupRef
    sequence: int
    sides: tuple[Side, ...]


class WaitEvidence(EvidenceOfRanks):
    """Edges of the wait-for graph that lead to the culprit."""

    kind: Literal["wait"] = "wait"
    waits: tuple[Wait, ...]


class StackEvidence(EvidenceOfRanks):
    kind: Literal["stack"] = "stack"
    thread: str = ""
    frames: tuple[Place, ...] = Field(description="Outermost first.")


class ProcessEvidence(EvidenceOfRanks):
    kind: Literal["process"] = "process"
    host: str | None = None
    pid: int | None = None
    state: str | None = None
    exit_code: int | None = None
    signal: int | None = None


class AbsenceEvidence(EvidenceOfRanks):
    """Ranks that should be there and were not found."""

    kind: Literal["absence"] = "absence"
    reason: Reason


class LogEvidence(EvidenceOfRanks):
    kind: Literal["log"] = "log"
    path: str = ""
    line: str


class FdEvidence(EvidenceOfRanks):
    kind: Literal["fd"] = "fd"
    pid: int | None = None
    fd: int | None = None
    target: str | None = None
    mounted: str | None = Field(default=None, description="The source of the mount that does not answer.")


class AwaitedEvidence(EvidenceOfRanks):
    """What ranks wait for, by the memory of their Python."""

    kind: Literal["awaited"] = "awaited"
    what: AwaitedKind
    keys: tuple[str, ...] = Field(default=(), description="Of a store, as the callers named them.")


class MotionEvidence(EvidenceOfRanks):
    """Which ranks made progress between two looks."""

    kind: Literal["motion"] = "motion"
    seconds: float
    moved: FoldedRanks = ""
    frozen: FoldedRanks = ""


class WorkEvidence(EvidenceOfRanks):
    """What a rank was seen at work with while others waited for it."""

    kind: Literal["work"] = "work"
    means: WorkMeans
    seconds: float = Field(description="Between the two looks that show it; 0 for a sleep, which one look shows.")


class LagEvidence(EvidenceOfRanks):
    """A straggler's arrival compared with the others'."""

    kind: Literal["lag"] = "lag"
    group: GroupRef
    lag_seconds: float
    period_seconds: float
    last_in: int = Field(description="In how many of `of` sequences it was last.")
    of: int


Evidence = Annotated[
    SequenceEvidence
    | SignatureEvidence
    | WaitEvidence
    | StackEvidence
    | ProcessEvidence
    | AbsenceEvidence
    | LogEvidence
    | FdEvidence
    | AwaitedEvidence
    | MotionEvidence
    | WorkEvidence
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
    frees: bool = Field(default=False, description="Whether the ranks go on by themselves once this is done.")


class Finding(Contract):
    """One fault and its evidence."""

    kind: Kind
    cause: Cause = Cause.UNKNOWN
    certainty: Certainty
    certainty_reason: str = Field(default="", description="Why it is so certain and no more; empty if kept long ago.")
    culprits: tuple[Culprit, ...] = ()
    victims: FoldedRanks = ""
    ended: FoldedRanks = Field(default="", description="Of a job that died: who ended, too. It has no victims.")
    group: GroupRef | None = None
    op: str | None = None
    sequence: int | None = None
    cycle: tuple[Wait, ...] = ()
    chain: tuple[ChainLink, ...] = Field(
        default=(), description="Who waits for whom in turn, where that leads to a process, a lock or another job."
    )
    links: tuple[Link, ...] = ()
    where: Where | None = None
    since: str | None = Field(
        default=None,
        description="Since when, RFC 3339, UTC: its oldest operation was issued, or its ranks were seen to stand.",
    )
    lasted_seconds: float | None = Field(default=None, description="How long, at the last look; None: not known.")
    hung_from: str | None = Field(
        default=None,
        description="Of `held_up` alone: from when on, RFC 3339, UTC, it is called hung if nothing moves till then.",
    )
    summary: str = Field(default="", description="The finding in one sentence.")
    remarks: tuple[str, ...] = Field(default=(), description="Caveats: what limits the finding or speaks against it.")
    evidence: tuple[Evidence, ...] = ()
    action: Action | None = Field(default=None, description="What to do about it; None if kept long ago.")
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
    with_counters: int = Field(
        default=0,
        description="Without a flight record; process groups show how far they are and what is pending.",
    )
    with_ras: int = Field(default=0, description="Ranks of which NCCL RAS has told.")
    with_gpu: int = Field(default=0, description="Ranks that use a GPU.")
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
    owner: str | None = Field(default=None, description="That user's name on the nodes, where they have one.")
    made_at: str = Field(default="", description="RFC 3339, UTC.")
    took_seconds: float = 0.0
    verdict: Verdict
    state: Literal["running", "idle", "finished", "ended"] | None = Field(
        default=None, description="`finished`: each rank exited with code 0; `ended`: it is over, and nobody saw how."
    )
    headline: str
    action: Action | None = Field(
        default=None,
        description="What to do now, as the first finding says, else the verdict; None if kept long ago.",
    )
    findings: tuple[Finding, ...] = ()
    chain: tuple[ChainLink, ...] = Field(default=(), description="As of a finding, while nobody can tell.")
    next_steps: tuple[NextStep, ...] = Field(default=(), description="What to do beside the steps of the findings.")
    statements: tuple[Statement, ...] = Field(
        default=(), description="Who said that he waited, and in what: told where the verdict names nobody."
    )
    stack_classes: tuple[StackClass, ...] = ()
    last_lines: tuple[LogLine, ...] = Field(
        default=(),
        description="What the ranks at fault logged last, else some that ended or wait; also after death.",
    )
    checks: tuple[Check, ...] = Field(default=(), description="What is wrong or risky in how the job was started.")
    coverage: Coverage = Coverage()
    read: tuple[FileRead, ...] = Field(default=(), description="What was read of each file; none where a job was live.")
    conflicts: tuple[Conflict, ...] = ()
