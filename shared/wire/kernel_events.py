"""What a node's kernel log shows: broken devices, lost links, hung tasks, killed processes."""

from enum import StrEnum

from pydantic import Field

from shared.value import Value


class KernelEventKind(StrEnum):
    """What a kernel line reports, whichever driver printed it."""

    XID = "xid"
    """NVIDIA's driver reports an error of one GPU; `code` is the Xid."""
    SXID = "sxid"
    """The same for an NVSwitch."""
    GPU_DRIVER = "gpu_driver"
    """A GPU's driver reports an error without a number."""
    HUNG_TASK = "hung_task"
    """A task has been in uninterruptible sleep for minutes; `stack` shows where in the kernel."""
    LOCKUP = "lockup"
    """A CPU has been stuck for many seconds."""
    OOM_KILL = "oom_kill"
    """A process was OOM-killed; `pid` is the victim, not the process that requested memory."""
    CRASH = "crash"
    """A process crashed, for example with a segmentation fault."""
    LINK_DOWN = "link_down"
    LINK_UP = "link_up"
    NIC_ERROR = "nic_error"
    PCIE_ERROR = "pcie_error"
    STORAGE = "storage"
    """A file server does not answer, or a disk fails."""


KERNEL_WORDS = {
    KernelEventKind.XID: "an Xid",
    KernelEventKind.SXID: "an SXid",
    KernelEventKind.GPU_DRIVER: "a GPU driver fault",
    KernelEventKind.HUNG_TASK: "a task blocked for minutes",
    KernelEventKind.LOCKUP: "a CPU lockup",
    KernelEventKind.OOM_KILL: "an OOM-killed process",
    KernelEventKind.CRASH: "a process that crashed",
    KernelEventKind.LINK_DOWN: "a network link down",
    KernelEventKind.LINK_UP: "a network link up",
    KernelEventKind.NIC_ERROR: "a network adapter fault",
    KernelEventKind.PCIE_ERROR: "an uncorrected PCIe error",
    KernelEventKind.STORAGE: "storage that does not respond",
}
"""What each kind is, after `reports`."""


class KernelEvent(Value):
    """One line of the kernel log and what was parsed from it; repeats are counted, not listed."""

    kind: KernelEventKind
    at: float | None = Field(
        default=None, description="Unix seconds of the first such line, accurate to a few seconds."
    )
    last_at: float | None = Field(default=None, description="Unix seconds of the last such line.")
    count: int = 1
    text: str = Field(default="", description="The first such line, secrets redacted, cut to 300 characters.")
    code: int | None = Field(default=None, description="Xid or SXid.")
    pid: int | None = Field(default=None, description="The process it concerns; for a thread, its process, if known.")
    host_pid: int | None = Field(
        default=None,
        description="In the place of `pid`, where the agent's process ids are not those of the kernel's log.",
    )
    name: str | None = Field(default=None, description="That process's short name.")
    cgroup: str | None = Field(default=None, description="Memory cgroup of an OOM-killed process, from the root.")
    device: str | None = Field(default=None, description="PCI address as `0000:3b:00.0`, with the function if given.")
    interface: str | None = Field(default=None, description="Network interface or RDMA device, e.g. `eth0`, `mlx5_1`.")
    stack: tuple[str, ...] = Field(default=(), description="Kernel functions below the line, innermost first.")


class KernelEvents(Value):
    """The relevant part of a node's kernel log."""

    since: float | None = Field(default=None, description="Unix seconds: how far back the log reaches.")
    events: tuple[KernelEvent, ...] = Field(default=(), description="By first appearance, oldest first.")
