"""What a node's devices are doing: its GPUs according to their driver, its network ports according to the kernel."""

from typing import Literal

from pydantic import Field

from shared.value import Value

PortKind = Literal["infiniband", "roce", "ethernet"]


class GpuProcess(Value):
    """A process that computes on a GPU."""

    pid: int
    used_bytes: int | None = None
    instance: str | None = Field(default=None, description="The MIG instance it runs on, as `gi/ci`; None without MIG.")


class Gpu(Value):
    """One GPU. None: the driver does not report it."""

    index: int
    uuid: str | None = None
    name: str = ""
    device: str | None = Field(default=None, description="PCI address as `0000:3b:00.0`.")
    fault: str | None = Field(default=None, description="Why the driver cannot reach it, e.g. `GPU is lost`.")
    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: int | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    slowed_by: tuple[str, ...] = Field(
        default=(), description="Why its clocks are throttled: thermal, hardware, power."
    )
    ecc_uncorrected: int | None = Field(
        default=None, description="Uncorrectable memory errors since the driver was loaded."
    )
    rows_pending: bool | None = Field(default=None, description="Memory rows will be remapped at the next reset.")
    rows_failed: bool | None = Field(default=None, description="A memory row could not be remapped.")
    nvlinks_up: int | None = None
    nvlinks_down: int | None = None
    nvlink_bytes: int | None = Field(default=None, description="Sent and received by all NVLinks so far.")
    usual_power_watts: float | None = Field(
        default=None, description="The median of its power while its ranks went on; None: not watched for long enough."
    )
    spins: bool | None = Field(
        default=None, description="Is it fully used, at a fraction of its usual power, and moves nothing by NVLink?"
    )
    nvlink_moves: bool | None = Field(default=None, description="Have its NVLinks moved data since the last reading?")
    processes: tuple[GpuProcess, ...] = ()


class Gpus(Value):
    """All GPUs of a node."""

    driver: str | None = Field(default=None, description="The driver's version.")
    gpus: tuple[Gpu, ...] = ()


class Port(Value):
    """One port. None: the kernel does not report it, or the agent has read it once only."""

    name: str = Field(description="`mlx5_0/1`, the device and the port's number, or an interface's name as `eth0`.")
    kind: PortKind
    up: bool | None = None
    state: str = Field(default="", description="In the kernel's words, as `ACTIVE`, `DOWN (Polling)`, `up`.")
    rate: str = Field(default="", description="In the kernel's words, as `400 Gb/sec (4X NDR)`.")
    sent_per_second: float | None = Field(default=None, description="Bytes, since the agent's last reading.")
    received_per_second: float | None = Field(default=None, description="Bytes, since the agent's last reading.")
    went_down: int | None = Field(default=None, description="How often its link went down in the last ten minutes.")
    errors: dict[str, int] = Field(
        default_factory=dict,
        description="Error counters that grew in the last ten minutes, by the kernel's names, and by how much.",
    )


class Ports(Value):
    """All ports of a node that lead out of it."""

    ports: tuple[Port, ...] = ()
