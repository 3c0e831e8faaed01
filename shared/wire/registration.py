"""How an agent registers: what it sends to the collector, and the answer; and how far its ranks are, in short.

An agent sends that digest unasked, with its registration. It is made of what the agent's beat has read already; nothing
is asked of a rank for it. A node with eight ranks takes less than a kilobyte. All times in it are durations, so that
clocks need not agree.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from shared.endings import ended_badly
from shared.errors import InvalidInput
from shared.value import JSON_INTEGER, Value

MOST_JOBS = 32
MOST_RANKS = 256
"""Of one job on one node."""
MOST_EXITED = 64
MOST_GROUPS = 32
MOST_NAME = 212
"""Characters of a job's name; a job of a longer one is not told of."""
MOST_GROUP_NAME = 64
MOST_SIGNS = 8
MOST_SIGN_NAME = 32
STILL_SECONDS = 20.0
"""A rank that has not gone on for so long is still: a change of that is sent at once."""

_Seconds = Annotated[float, Field(strict=True, ge=0.0, le=1e9, allow_inf_nan=False)]
_Number = Annotated[int, Field(strict=True, ge=0, lt=1 << 31), JSON_INTEGER]
_Index = Annotated[int, Field(strict=True, ge=-1, lt=MOST_GROUPS), JSON_INTEGER]
_Sequence = Annotated[int, Field(strict=True, ge=-1, lt=1 << 53), JSON_INTEGER]


class ExitedRank(Value):
    """A rank that has ended."""

    rank: _Number
    exit_code: Annotated[int, Field(strict=True, ge=-(1 << 31), lt=1 << 31), JSON_INTEGER] | None = None
    signal: Annotated[int, Field(strict=True, ge=0, lt=256), JSON_INTEGER] | None = None
    oom_killed: bool = Field(default=False, strict=True)

    @property
    def abnormally(self) -> bool:
        """Did it end by a signal or with an error?"""
        return ended_badly(self)


class JobDigest(Value):
    """The ranks of one job on this node, of its newest attempt, in columns."""

    job: str = Field(min_length=1, max_length=MOST_NAME)
    user: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,32}$")
    attempt: _Number = 0
    world_size: _Number | None = None
    timeout_seconds: _Seconds | None = Field(
        default=None, description="The shortest timeout of the operations that its ranks wait in, by their records."
    )
    ranks: tuple[_Number, ...] = Field(default=(), max_length=MOST_RANKS)
    still: tuple[_Seconds | None, ...] = Field(
        default=(), max_length=MOST_RANKS, description="How long each has not gone on; None: its marks cannot be read."
    )
    idle: tuple[_Seconds | None, ...] = Field(
        default=(), max_length=MOST_RANKS, description="How long each has made no progress of any kind."
    )
    pending: tuple[StrictBool, ...] = Field(
        default=(), max_length=MOST_RANKS, description="May what it issued last not be completed?"
    )
    group: tuple[_Index, ...] = Field(
        default=(), max_length=MOST_RANKS, description="In which of `groups` it issued last; -1: not known."
    )
    sequence: tuple[_Sequence, ...] = Field(
        default=(), max_length=MOST_RANKS, description="The last collective that it issued there; -1: none."
    )
    groups: tuple[Annotated[str, Field(max_length=MOST_GROUP_NAME)], ...] = Field(default=(), max_length=MOST_GROUPS)
    exited: tuple[ExitedRank, ...] = Field(default=(), max_length=MOST_EXITED)
    spinning: tuple[_Number, ...] = Field(
        default=(), max_length=MOST_RANKS, description="Ranks whose GPUs are fully used and compute nothing."
    )
    timed_out: tuple[_Number, ...] = Field(
        default=(), max_length=MOST_RANKS, description="Ranks whose logs have just got a line of a watchdog."
    )
    unanswered: _Seconds | None = Field(
        default=None,
        description="How long the oldest request has waited that servers of the job, which stands still, have not "
        "answered; None: there is none.",
    )

    def check(self) -> None:
        """Raise InvalidInput where the columns do not fit each other."""
        columns: tuple[Sequence[object], ...] = (self.still, self.idle, self.pending, self.group, self.sequence)
        if any(len(column) != len(self.ranks) for column in columns):
            raise InvalidInput("the columns of a digest are not equally long")
        if any(not -1 <= index < len(self.groups) for index in self.group):
            raise InvalidInput("the group of a rank is not in the digest's table")


class Sign(Value):
    """Something that happened to the node and may hang a job: it makes the collector look sooner, and no more."""

    kind: str = Field(
        pattern=r"^[a-z_]{1,32}$", description="A kernel event's kind as `xid`, or `port_down`, `peer_dead`."
    )
    name: str = Field(default="", max_length=MOST_SIGN_NAME, description="The device or port that it is about.")
    age: _Seconds = Field(description="How long ago it was.")


class NodeDigest(Value):
    """All jobs of a node."""

    jobs: tuple[JobDigest, ...] = Field(default=(), max_length=MOST_JOBS)
    signs: tuple[Sign, ...] = Field(default=(), max_length=MOST_SIGNS)

    def check(self) -> None:
        """Raise InvalidInput where the columns of a job do not fit each other."""
        for job in self.jobs:
            job.check()


class Registration(Value):
    """Where the agent can be reached. Without a URL: at the address from which it registers."""

    url: str | None = Field(
        default=None, max_length=300, description="Its base URL, if it cannot be reached at the sender's address."
    )
    scheme: Literal["http", "https"] = "http"
    port: Annotated[int, Field(strict=True, ge=1, le=65_535), JSON_INTEGER] = 8471
    digest: NodeDigest | None = Field(
        default=None, description="How far its ranks are, if the collector has asked for that in its last answer."
    )


class Lease(Value):
    """The agent is registered for this long."""

    host: str
    url: str = Field(description="Where the collector will ask the agent.")
    lease_seconds: float = Field(description="An agent that does not register again within this time counts as lost.")
    digest_seconds: float | None = Field(
        default=None,
        description="How often the collector wants to know how far the agent's ranks are; None: it does not.",
    )
