"""What a preflight found. Its words are API, as those of a diagnosis are."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from shared.answer.checks import Check
from shared.value import Value

PREFLIGHT_SCHEMA_VERSION = 1


class Soundness(StrEnum):
    """The verdict on the nodes."""

    SOUND = "sound"
    """All nodes work, together too."""
    BAD_NODES = "bad_nodes"
    """Nodes or links are named; the good nodes work without them."""
    CANNOT_TELL = "cannot_tell"


class NodeState(StrEnum):
    """What is known of a node."""

    GOOD = "good"
    """It works, and all good nodes work together."""
    BAD = "bad"
    LEFT_OUT = "left_out"
    """It works, but one of its links does not."""
    UNKNOWN = "unknown"


class PreflightKind(StrEnum):
    """What is wrong."""

    NODE_ABSENT = "node_absent"
    """It did not report to the coordinator."""
    NODE_LOST = "node_lost"
    """It stopped answering the coordinator."""
    NODE_FAILS_ALONE = "node_fails_alone"
    """A trial without any other node failed."""
    NODE_DIFFERS = "node_differs"
    """It lacks what the other nodes have: a GPU, an active port of an RDMA device."""
    NODE_FAILS = "node_fails"
    """It works with no other node."""
    NODE_UNSTEADY = "node_unsteady"
    """It fails with other nodes at times, and they do not without it."""
    NODE_SLOW = "node_slow"
    """It is slow with every node that is fast with others."""
    LINK_FAILS = "link_fails"
    """Both ends work with other nodes."""
    LINK_SLOW = "link_slow"
    NETWORK_DIVIDED = "network_divided"
    """Nodes of each side work with one another, and with none of the other side."""
    SAME_ADDRESS = "same_address"
    """Several nodes have one address."""
    PATH_FAILS = "path_fails"
    """One interface or port of the node cannot be reached, or reaches nobody."""
    PATH_LINK_FAILS = "path_link_fails"
    FAILS_AT_SCALE = "fails_at_scale"
    """Many nodes together fail; all parts of them that were tried work."""
    COMES_AND_GOES = "comes_and_goes"
    """The same nodes failed once, and passed once."""
    CLOCK_DIFFERS = "clock_differs"
    """The clock of the node is not that of the others. It accuses nobody."""
    NOT_TOLD_APART = "not_told_apart"
    """These nodes work with no others, and there are too few others to say whose fault it is."""


class PreflightFinding(Value):
    """One fault."""

    kind: PreflightKind
    hosts: tuple[str, ...] = Field(description="The bad node; both ends of a link; all nodes of a fault at scale.")
    sides: tuple[tuple[str, ...], ...] = Field(
        default=(), description="Of a divided network: the nodes of each side, the largest first."
    )
    path: str = Field(default="", description="The interface, port or GPU, where it is known.")
    text: str = Field(description="One sentence.")
    evidence: tuple[str, ...] = Field(default=(), description="Trials, and what they said.")
    diagnosis: str = Field(default="", description="The verdict of unhang on a trial that hung.")
    hint: str = Field(default="", description="What to check or change.")


class StageResult(Value):
    """One stage of the preflight."""

    name: str
    outcome: str = Field(description="passed, failed, or skipped.")
    text: str = ""
    trials: int = 0
    rounds: int = 0
    took_seconds: float = 0.0


class NodeResult(Value):
    """One node."""

    node: int
    host: str
    state: NodeState
    bytes_per_second: float | None = Field(
        default=None, description="The bandwidth of an all-reduce with its best partner; None: not measured."
    )
    multiply_seconds: float | None = Field(default=None, description="Matrix products alone; None: not measured.")


class DrainCommand(Value):
    """How to take the bad nodes out of service. Nothing runs it."""

    scheduler: str
    command: str


class PreflightReport(Value):
    """What a preflight found."""

    schema_version: int = PREFLIGHT_SCHEMA_VERSION
    result_id: str = Field(default="", description="Of this run alone: a collector keeps what it is sent twice once.")
    made_at: str = Field(description="When it ended, RFC 3339.")
    took_seconds: float
    verdict: Soundness
    headline: str
    backend: str = Field(description="gloo or nccl.")
    nodes: tuple[NodeResult, ...]
    findings: tuple[PreflightFinding, ...] = ()
    checks: tuple[Check, ...] = Field(default=(), description="What is risky in the nodes' settings; accuses nobody.")
    stages: tuple[StageResult, ...] = ()
    untested: tuple[str, ...] = Field(default=(), description="What could not be tested, and why.")
    drain: tuple[DrainCommand, ...] = ()
    median_bytes_per_second: float | None = Field(default=None, description="Of all pairs; None: not measured.")

    def hosts(self, state: NodeState) -> tuple[str, ...]:
        """Return the hosts in a state, in the order of their nodes."""
        return tuple(node.host for node in self.nodes if node.state is state)

    def result(self) -> "PreflightResult":
        """Return what a collector keeps of it."""
        return PreflightResult(
            result_id=self.result_id[:_LONGEST_WORD],
            made_at=self.made_at[:_LONGEST_WORD],
            took_seconds=self.took_seconds,
            verdict=self.verdict,
            headline=self.headline[:_LONGEST_LINE],
            backend=self.backend[:_LONGEST_WORD],
            hosts={state: tuple(each[:_LONGEST_HOST] for each in self.hosts(state)) for state in NodeState},
            findings=self.findings[:MOST_FINDINGS],
        )


MOST_FINDINGS = 200
_LONGEST_HOST, _LONGEST_LINE, _LONGEST_WORD = 300, 4000, 64
_Host = Annotated[str, Field(max_length=_LONGEST_HOST)]


class PreflightResult(Value):
    """What a collector keeps of a preflight: what became of each node, and why."""

    result_id: str = Field(
        default="",
        max_length=_LONGEST_WORD,
        description="Of this run alone; empty: the result itself says which it is.",
    )
    made_at: str = Field(max_length=_LONGEST_WORD, description="When it ended, RFC 3339, by its first node.")
    took_seconds: float = Field(default=0.0, ge=0, le=1e9, strict=True)
    verdict: Soundness
    headline: str = Field(max_length=_LONGEST_LINE)
    backend: str = Field(default="", max_length=_LONGEST_WORD)
    hosts: Mapping[NodeState, tuple[_Host, ...]] = Field(description="The hosts in each state.")
    findings: tuple[PreflightFinding, ...] = Field(default=(), max_length=MOST_FINDINGS)

    def state_of(self, host: str) -> NodeState | None:
        """Return what it found a host to be; None where the host took no part."""
        return next((state for state, hosts in self.hosts.items() if host in hosts), None)


class KeptPreflight(PreflightResult):
    """A preflight that a collector has kept."""

    id: str = Field(description="For `GET /v1/preflights/{id}`; ids sort by time.")
    kept_at: str = Field(description="When the collector was told, RFC 3339, UTC.")
