"""What a node's kernel log tells: broken devices, lost links, tasks that hang, processes that were killed."""

from enum import StrEnum

from pydantic import Field

from shared.value import Value


class KernelEventKind(StrEnum):
    """What a line of the kernel's tells, whichever driver printed it."""

    XID = "xid"
    """NVIDIA's driver: an error of one GPU; `code` is the Xid."""
    SXID = "sxid"
    """The same of an NVSwitch."""
    GPU_DRIVER = "gpu_driver"
    """A GPU's driver complains without a number."""
    HUNG_TASK = "hung_task"
    """A task is in uninterruptible sleep for minutes; `stack` tells where in the kernel."""
    LOCKUP = "lockup"
    """A CPU does nothing else for many seconds."""
    OOM_KILL = "oom_kill"
    """A process was OOM-killed; `pid` is the victim, not who asked for memory."""
    CRASH = "crash"
    """A process was ended by a fault of its own, such as a segmentation fault."""
    LINK_DOWN = "link_down"
    LINK_UP = "link_up"
    NIC_ERROR = "nic_error"
    PCIE_ERROR = "pcie_error"
    STORAGE = "storage"
    """A file server does not answer, or a disk fails."""


class KernelEvent(Value):
    """One line of the kernel log with what was read from it; the same line again is counted, not told again."""

    kind: KernelEventKind
    at: float | None = Field(default=None, description="Unix seconds of the first such line, some seconds exact.")
    last_at: float | None = Field(default=None, description="Unix seconds of the last such line.")
    count: int = 1
    text: str = Field(default="", description="The first such line, secrets redacted, cut to 300 characters.")
    code: int | None = Field(default=None, description="Xid or SXid.")
    pid: int | None = Field(default=None, description="The process it concerns; a thread's process, where known.")
    name: str | None = Field(default=None, description="That process's short name.")
    device: str | None = Field(default=None, description="PCI address as `0000:3b:00.0`, the function where told.")
    interface: str | None = Field(default=None, description="Network interface or RDMA device, e.g. `eth0`, `mlx5_1`.")
    stack: tuple[str, ...] = Field(default=(), description="Kernel functions below the line, innermost first.")


class KernelEvents(Value):
    """The telling part of a node's kernel log."""

    since: float | None = Field(default=None, description="Unix seconds that the log reaches back to.")
    events: tuple[KernelEvent, ...] = Field(default=(), description="By first appearance, oldest first.")
