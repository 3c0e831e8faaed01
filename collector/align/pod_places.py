"""Where ranks run by the names that people on a cluster go by, as far as a diagnosis names them."""

from pydantic import Field

from shared.value import Value


class PodFacts(Value):
    """What Kubernetes tells of one pod."""

    namespace: str
    name: str
    node: str | None = None
    phase: str = ""
    reason: str = ""
    restarts: int = 0

    @property
    def full_name(self) -> str:
        """The pod as it is written in a diagnosis."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_unwell(self) -> bool:
        """Is something wrong with it, or was it before?"""
        return self.phase not in ("Running", "Succeeded") or bool(self.reason)


class RankPlace(Value):
    """Where one rank runs."""

    rank: int
    pod: PodFacts
    container: str | None = None
    pid: int | None = Field(default=None, description="Its process id as its container sees it.")
    agent: PodFacts | None = Field(default=None, description="The pod of the agent on that node.")


class Places(Value):
    """What the sources of agents know of a job's ranks and nodes."""

    ranks: tuple[RankPlace, ...] = Field(default=(), description="Of ranks that a diagnosis names.")
    lost: tuple[PodFacts, ...] = Field(
        default=(), description="Pods of the job that are not well, and in which no rank is seen."
    )
    idle: tuple[str, ...] = Field(
        default=(), description="Nodes that Slurm gave the job, whose agents answer and see no rank of it."
    )
