"""What can be asked of any source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pydantic import Field

from collector.align.expected import Expected, Unanswered
from collector.gather.jobs import JobSummary, summarise_jobs
from collector.keep.kept import Kept
from collector.question import PATIENCE_SECONDS, Progress, Question, later_deadline
from collector.show.views import View, only
from shared.answer.diagnosis import Diagnosis
from shared.value import Value
from shared.wire.debug_output import DeepLook, How
from shared.wire.snapshot import NodeSnapshot, RankList

V = TypeVar("V", bound=View)


class JobNames(Value):
    """The jobs that are there, as the collector's `GET /v1/jobs` says it too."""

    jobs: tuple[JobSummary, ...]
    unanswered: tuple[Unanswered, ...] = Field(default=(), description="Agents that did not answer.")
    unread: tuple[str, ...] = Field(default=(), description="What could not be read, and launchers that wait.")


@dataclass(frozen=True)
class Wanted:
    """How to diagnose. None: as the source sees fit."""

    job: str | None
    looks: int | None = None
    interval_seconds: float | None = None
    timeout_seconds: float | None = None
    native: str | None = None
    patience_seconds: float | None = None
    keep: bool | None = None
    """False: a collector is not to keep it."""

    def given(self) -> dict[str, object]:
        """Return what was said, by the names that questions use: what follows from it, a collector knows itself."""
        names = {
            "looks": self.looks,
            "interval_seconds": self.interval_seconds,
            "deadline_seconds": self.timeout_seconds,
            "native": self.native,
            "patience_seconds": self.patience_seconds,
            "keep": self.keep,
        }
        return {name: value for name, value in names.items() if value is not None}

    @property
    def deadline_seconds(self) -> float:
        """When the verdict is due: as was said, else later than by default where looks are to be many or far apart."""
        if self.timeout_seconds is not None:
            return self.timeout_seconds
        return later_deadline(Question(), looks=self.looks, interval_seconds=self.interval_seconds)

    def question(self) -> Question:
        """Return the question to put to agents."""
        usual = {"deadline_seconds": self.deadline_seconds, "patience_seconds": self.usual_patience}
        return Question.model_validate({"job": self.job, **usual, **self.given()})

    @property
    def usual_patience(self) -> float:
        """How long to go on where nothing was said of it: whoever sets a deadline means it."""
        return PATIENCE_SECONDS if self.timeout_seconds is None else 0.0


@dataclass(frozen=True)
class JudgedJob:
    """A diagnosis, and how to keep everything it rests on."""

    diagnosis: Diagnosis
    save: Callable[[Path], Path]
    """Write a bundle into this directory and return the file."""
    kept: Callable[[], Kept]
    """Return everything it rests on."""


@dataclass(frozen=True)
class Aspect(Generic[V]):
    """One aspect of a job over all its ranks: how to make it of snapshots, and where a collector has it."""

    path: str
    model: type[V]
    make: Callable[[Sequence[NodeSnapshot], Expected], V]
    parameters: Mapping[str, str] = field(default_factory=dict)
    with_stacks: bool = False


@dataclass(frozen=True)
class JobChoice:
    """Which job and ranks a view is of. None: the only job, all ranks."""

    job: str | None
    ranks: frozenset[int] | None = None
    native: bool = False


@dataclass(frozen=True)
class DeepChoice:
    """Which rank to look at closely, or which child process of it, and with what. `job` None: the only job."""

    job: str | None
    rank: int
    how: How
    seconds: float = 3.0
    child: int | None = None


class JobSource(Protocol):
    """This machine, a collector, or files."""

    def jobs(self) -> JobNames:
        """Return the jobs that are there."""
        ...

    def diagnose(self, wanted: Wanted, progress: Progress | None) -> JudgedJob:
        """Judge one job."""
        ...

    def view(self, aspect: Aspect[V], choice: JobChoice) -> V:
        """Return one aspect of one job."""
        ...

    def look_closely(self, choice: DeepChoice) -> DeepLook:
        """Return a closer look at one rank."""
        ...


def make_view(aspect: Aspect[V], choice: JobChoice, snapshots: Sequence[NodeSnapshot], expected: Expected) -> V:
    """Return the aspect of what was seen."""
    return aspect.make(only(snapshots, expected, ranks=choice.ranks), expected)


def jobs_in(snapshots: Sequence[NodeSnapshot]) -> JobNames:
    """Return the jobs that snapshots are of."""
    lists = [
        RankList(host=each.host or "", ranks=tuple(rank.identity for rank in each.ranks), exited=each.exited)
        for each in snapshots
    ]
    return JobNames(jobs=summarise_jobs(lists))
