"""Evidence that nodes give, and what runs them: kernel, GPUs, network ports, Kubernetes."""

from typing import Literal

from pydantic import Field

from shared.answer.contract import EvidenceOfRanks


class KernelEvidence(EvidenceOfRanks):
    """A line of a node's kernel log."""

    kind: Literal["kernel"] = "kernel"
    host: str | None = None
    line: str
    at: float | None = Field(default=None, description="Unix seconds of the first such line.")
    count: int = Field(default=1, description="How often it was printed.")


class GpuEvidence(EvidenceOfRanks):
    """What the driver reports about one GPU."""

    kind: Literal["gpu"] = "gpu"
    host: str | None = None
    index: int
    device: str | None = Field(default=None, description="PCI address.")


class PortEvidence(EvidenceOfRanks):
    """What the kernel reports about one network port."""

    kind: Literal["port"] = "port"
    host: str | None = None
    port: str = Field(description="`mlx5_0/1`, or an interface's name.")


class PodEvidence(EvidenceOfRanks):
    """What Kubernetes reports about one pod of the job."""

    kind: Literal["pod"] = "pod"
    pod: str = Field(description="`NAMESPACE/NAME`")
    container: str | None = None
    host: str | None = Field(default=None, description="Its node.")
    phase: str = Field(default="", description="Running, Pending, Failed …")
    reason: str = Field(default="", description="What is or was wrong: `OOMKilled`, `Evicted` …")
    restarts: int = 0
