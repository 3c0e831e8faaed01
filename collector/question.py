"""What is asked of a sweep, and what it says while it works."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Literal

from pydantic import Field

from shared.rank_sets import FoldedRanks
from shared.value import Value

SURVEY_ABOVE = 32
"""Agents. Two whole looks at the eight ranks of so many are some 40 MiB to read, about a second's work."""


PATIENCE_SECONDS = 60.0
"""By default: as long as a checkpoint or a compilation takes in a healthy job."""


class NativePolicy(StrEnum):
    """Whose native (C, C++) stacks are read. Reading them stops a process for about a second."""

    NEVER = "never"
    SUSPECTS = "suspects"
    """Only of those whose Python stacks leave the verdict open, after the plain looks."""
    ALL = "all"
    """And of all their threads, those that Python does not know as well, where an agent may run debuggers."""

    @property
    def asked(self) -> dict[str, str]:
        """What an agent is asked for where native stacks are read."""
        return {"stacks": "native", **({"threads": "all"} if self is NativePolicy.ALL else {})}


class Scope(StrEnum):
    """Which ranks of a job on many nodes are looked at wholly, after a survey of all."""

    SUSPECTS = "suspects"
    NOBODY = "nobody"
    RANKS = "ranks"
    """Those of the question's `ranks`; the survey is dropped."""


class Question(Value):
    """How a job is looked at. The defaults suit a live job."""

    job: str | None = Field(default=None, description="None: the only job that the agents know.")
    looks: int = Field(default=2, ge=1, le=10, description="Looks to take; two tell what moves.")
    interval_seconds: float = Field(default=3.0, ge=0.0, le=600.0, description="Pause between two looks.")
    window: int = Field(default=64, ge=1, le=1_000_000, description="Last records per group asked of each rank.")
    deadline_seconds: float = Field(default=30.0, gt=0.0, le=3600.0, description="When the verdict is due.")
    patience_seconds: float = Field(
        default=0.0, ge=0.0, le=3600.0, description="How much later it may come where only time tells slow from stuck."
    )
    stacks: Literal["plain", "none"] = Field(default="plain", description="What each look reads of the stacks.")
    survey_above: int = Field(
        default=SURVEY_ABOVE, ge=0, description="Where more agents than this are to look, they look briefly at first."
    )
    scope: Scope = Field(default=Scope.SUSPECTS, description="Who is looked at wholly, where nodes are many.")
    ranks: FoldedRanks = ""
    native: NativePolicy = Field(default=NativePolicy.SUSPECTS, description="Whose native stacks to read.")


MOST_SECONDS = 3600.0
"""The longest deadline that may be asked for."""


def later_deadline(usual: Question, *, looks: int | None = None, interval_seconds: float | None = None) -> float:
    """Return when a verdict is due if nobody said so: later than usual where looks are to be many or far apart."""
    interval = usual.interval_seconds if interval_seconds is None else interval_seconds
    pauses = interval * ((usual.looks if looks is None else looks) - 1)
    extra = pauses - usual.interval_seconds * (usual.looks - 1)
    return max(usual.deadline_seconds, min(MOST_SECONDS, usual.deadline_seconds + extra))


class Stage(StrEnum):
    """The steps of a sweep."""

    FINDING = "finding"
    LOOKING = "looking"
    WAITING = "waiting"
    LOOKING_CLOSER = "looking_closer"
    """After a survey: at the ranks that the verdict is about."""
    LOOKING_DEEPER = "looking_deeper"
    JUDGING = "judging"


class Step(Value):
    """How far a sweep has come."""

    stage: Stage
    look: int = Field(default=0, description="Which look this is, from 1; 0 where none.")
    asked: int = Field(default=0, description="Agents asked in this step.")
    finished: int = Field(default=0, description="Of these, how many have answered or failed.")
    seconds: float = Field(default=0.0, description="How long it waits, for `waiting`: at most, if the job moves.")
    reason: str = Field(default="", description="What it waits for, for `waiting`; empty: for the next look.")


Progress = Callable[[Step], Awaitable[None] | None]
"""Called at each step, and for each agent that has answered. May be a coroutine function; must be quick."""
