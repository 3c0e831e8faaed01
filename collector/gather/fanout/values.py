"""The values of asking many agents: what is asked, by when, and what came of it."""

import time
from dataclasses import dataclass
from typing import Generic, TypeVar

from collector.align.expected import Unanswered
from collector.gather.fanout.one_request import Parameters
from collector.hostlists import AgentAddress
from shared.missing import Missing
from shared.value import Value

T = TypeVar("T", bound=Value)


@dataclass(frozen=True)
class RequestDeadline:
    """A point in time by which an answer is due, passed down to everything that waits."""

    at: float
    """By `time.monotonic`, which is the event loop's clock too."""

    @classmethod
    def within(cls, seconds: float) -> "RequestDeadline":
        """Return the deadline that lies `seconds` from now."""
        return cls(time.monotonic() + seconds)

    @property
    def seconds_left(self) -> float:
        """Return how long there is, never below zero."""
        return max(0.0, self.at - time.monotonic())

    def earlier(self, seconds: float) -> "RequestDeadline":
        """Return this deadline, or the one `seconds` from now where that is sooner."""
        return RequestDeadline(min(self.at, time.monotonic() + seconds))


@dataclass(frozen=True)
class Request:
    """What one agent is asked."""

    address: AgentAddress
    path: str
    parameters: Parameters
    otherwise: "Request | None" = None
    """What to ask an agent that does not know the path: one of an earlier version."""
    patience_seconds: float | None = None
    """How long to wait, where that is less than until the deadline of all."""

    @property
    def may_be_repeated(self) -> bool:
        """Does it cost a job next to nothing to be asked twice? Native stacks and debuggers stop a process for long."""
        return self.parameters.get("stacks") != "native" and not self.path.endswith("/deep")

    @property
    def may_be_doubled(self) -> bool:
        """May a second try go out while the first is under way? A question to NCCL RAS costs the whole job."""
        return self.may_be_repeated and self.parameters.get("ras") != "true"


@dataclass(frozen=True)
class Answered(Generic[T]):
    """What one agent said."""

    address: AgentAddress
    value: T
    size_bytes: int
    took_seconds: float
    asked_at_ns: int = 0
    """By our clock, as is the next: the agent's own times can be compared with them."""
    answered_at_ns: int = 0


@dataclass(frozen=True)
class Silent:
    """An agent that said nothing that can be used, and why."""

    address: AgentAddress
    missing: Missing

    def unanswered(self, *, host: str | None = None, ranks: str = "") -> Unanswered:
        """Return it in the verdict's form, with `host` and `ranks` if an earlier answer gave them."""
        return Unanswered(host=self.address.host if host is None else host, missing=self.missing, ranks=ranks)


@dataclass(frozen=True)
class RoundOutcome(Generic[T]):
    """The outcome of asking many, in the order in which they were asked."""

    answered: tuple[Answered[T], ...]
    silent: tuple[Silent, ...]
