"""What is known so far: nodes, findings, stages, and the time that is left."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from cli.preflight.conduct import Conductor, Outcome, TrialPlan
from cli.preflight.coordinator import PATIENCE_SECONDS, Arrival, NodeLink
from shared.answer.checks import Check
from shared.answer.preflight import PreflightFinding, PreflightKind, StageResult

_LEAST_SECONDS = 3.0
"""With less left no trial begins."""

_BUSY = 0.3
"""A trial that timed out is made once more where its ranks waited that share of the time for a CPU."""

_OVERHEAD_SECONDS = 12.0 + PATIENCE_SECONDS
"""A trial ends that long after its own limit at the latest, with its last words."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Limits:
    """How long things may take, and how large they are."""

    deadline_seconds: float = 600.0
    trial_seconds: float = 30.0
    start_seconds: float = 60.0
    bytes: int | None = None
    """Of each all-reduce that is measured; None: as suits the backend."""
    slow_factor: float = 4.0
    """How many times slower than the median is slow."""


@dataclass
class Board:
    """The state of one preflight."""

    names: list[str]
    """Of all nodes that should be there, by index."""
    links: Mapping[int, NodeLink]
    limits: Limits
    tell: Tell
    arrivals: Mapping[int, Arrival] = field(default_factory=dict)
    """What nodes have said of themselves that connected, also those whose report never came."""
    began: float = field(default_factory=time.monotonic)
    backend: str = "gloo"
    gpus: dict[int, tuple[int, ...]] = field(default_factory=dict)
    findings: list[PreflightFinding] = field(default_factory=list)
    out: set[int] = field(default_factory=set)
    """Nodes that are not tried any more: they are known to be bad."""
    stages: list[StageResult] = field(default_factory=list)
    untested: list[str] = field(default_factory=list)
    checks: tuple[Check, ...] = ()
    outcomes: list[Outcome] = field(default_factory=list)
    together: frozenset[int] = frozenset()
    """The nodes that are proved to work with one another."""
    unnamed: frozenset[int] = frozenset()
    """Absent nodes of which nobody says what they are called."""
    late: bool = False
    """Some trials did not begin, for the deadline was near."""

    def __post_init__(self) -> None:
        self.conductor = Conductor(self.links)

    @property
    def members(self) -> tuple[int, ...]:
        """The nodes that can be tried."""
        here = (node for node in range(len(self.names)) if node in self.links)
        return tuple(node for node in here if node not in self.out and not self.lost(node))

    @property
    def members_without_bad_links(self) -> tuple[int, ...]:
        """Those without an end of each link that is known to be bad: with both, a trial would find it once more."""
        links = [each.hosts for each in self.findings if each.kind is PreflightKind.PATH_LINK_FAILS]
        without = ends_left_out(links)
        return tuple(node for node in self.members if self.names[node] not in without)

    def lost(self, node: int) -> bool:
        """Has this node stopped answering?"""
        return bool(self.links[node].lost)

    @property
    def seconds_left(self) -> float:
        """Until the deadline."""
        return self.began + self.limits.deadline_seconds - time.monotonic()

    def seconds_for_trial(self) -> float:
        """How long a trial that begins now may take; 0: none can begin."""
        left = min(self.limits.trial_seconds, self.seconds_left - _OVERHEAD_SECONDS)
        if left < min(_LEAST_SECONDS, self.limits.trial_seconds):
            self.late = True
            return 0.0
        return left

    def few(self, nodes: Iterable[int]) -> str:
        """Return their names in a sentence, the first of them where they are many."""
        return few(self.hosts(nodes))

    def divide(
        self, sides: Sequence[frozenset[int]], *, path: str = "", evidence: Sequence[str] = (), hint: str = "",
        diagnosis: str = "", out: bool = False,
    ) -> None:  # fmt: skip
        """Add the finding that the network between these is at fault; `out`: only the largest side is tried further."""
        where = f" on {path}" if path else ""
        named = " and ".join(f"{{{self.few(side)}}}" for side in sides)
        text = f"the network between {named} does not work{where}; the nodes of each side work with one another"
        nodes = sorted(node for side in sides for node in side)
        self.accuse(
            PreflightKind.NETWORK_DIVIDED, nodes, text, path=path, evidence=evidence, hint=hint, diagnosis=diagnosis,
            sides=sides,
        )  # fmt: skip
        if out:
            self.out.update(*sides[1:])

    def hosts(self, nodes: Iterable[int]) -> tuple[str, ...]:
        """Return their names."""
        return tuple(self.names[node] for node in sorted(nodes))

    def accuse(
        self, kind: PreflightKind, nodes: Sequence[int], text: str, *, path: str = "", evidence: Sequence[str] = (),
        diagnosis: str = "", hint: str = "", out: bool = False, sides: Sequence[Iterable[int]] = (),
    ) -> None:  # fmt: skip
        """Add a finding; `out`: its nodes are not tried any more."""
        self.findings.append(
            PreflightFinding(
                kind=kind, hosts=self.hosts(nodes), path=path, text=text, evidence=tuple(evidence)[:8],
                diagnosis=diagnosis, hint=hint, sides=tuple(self.hosts(side) for side in sides),
            )
        )  # fmt: skip
        if out:
            self.out.update(nodes)

    async def try_out(self, plan: TrialPlan) -> Outcome | None:
        """Make a trial, and remember it; None where there is no time for it, or one of its nodes is lost."""
        seconds = self.seconds_for_trial()
        if not seconds:
            return None
        if any(self.lost(node) for node in plan.members):
            return Outcome(plan, passed=False, said={n: self.links[n].lost for n in plan.members if self.lost(n)})
        outcome = await self.conductor.conduct(plan)
        if not outcome.passed and outcome.cpu_wait > _BUSY and (seconds := self.seconds_for_trial()):
            nodes = self.few(plan.members)
            waited = f"{100 * outcome.cpu_wait:.0f} % of the time"
            self.untested.append(f"a trial of {nodes} timed out while its ranks waited for a CPU {waited}; tried again")
            outcome = await self.conductor.conduct(replace(plan, seconds=seconds))
        self.outcomes.append(outcome)
        return outcome

    def plan(self, members: Sequence[int]) -> TrialPlan:
        """Return the usual trial of these nodes. Of more than two, less is sent: all wait for the slowest there."""
        size = self.limits.bytes if self.limits.bytes is not None else _BYTES.get(self.backend, _BYTES["nccl"])
        return TrialPlan(
            tuple(members),
            self.backend,
            self.seconds_for_trial(),
            bytes=size if len(members) == 2 else size // _LARGE_SET,
            gpus={node: self.gpus.get(node, ()) for node in members},
        )

    @contextmanager
    def stage(self, name: str) -> Iterator["StageNotes"]:
        """One stage, which the report lists."""
        stage = StageNotes()
        began = time.monotonic()
        self.tell(f"{name} …")
        yield stage
        took = round(time.monotonic() - began, 2)
        said = {"outcome": stage.outcome, "text": stage.text, "trials": stage.trials, "rounds": stage.rounds}
        self.stages.append(StageResult.model_validate({"name": name, **said, "took_seconds": took}))
        self.tell(f"{name}: {stage.outcome}{f', {stage.text}' if stage.text else ''} ({took:.1f} s)")


def few(names: Sequence[str]) -> str:
    """Return names in a sentence, the first of them where they are many."""
    return f"{', '.join(names[:8])}{f' and {len(names) - 8} more' if len(names) > 8 else ''}"


def ends_left_out(links: Iterable[Iterable[str]]) -> set[str]:
    """Of each bad link, leave out the end that has most of them."""
    left, out = [set(each) for each in links], set[str]()
    while left:
        ends = sorted({host for link in left for host in link})
        worst = max(ends, key=lambda host: (sum(host in link for link in left), host))
        out.add(worst)
        left = [link for link in left if worst not in link]
    return out


@dataclass
class StageNotes:
    """What a stage says of itself in the end."""

    outcome: str = "passed"
    text: str = ""
    trials: int = 0
    rounds: int = 0


_LARGE_SET = 16
_BYTES = {"gloo": 4 << 20, "nccl": 256 << 20}
