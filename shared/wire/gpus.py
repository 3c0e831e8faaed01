"""What a node's GPUs are doing, according to their driver, and which processes use them."""

from pydantic import Field

from shared.value import Value


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
    processes: tuple[GpuProcess, ...] = ()


class Gpus(Value):
    """All GPUs of a node."""

    driver: str | None = Field(default=None, description="The driver's version.")
    gpus: tuple[Gpu, ...] = ()
