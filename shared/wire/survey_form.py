"""The form of a survey: tables of what ranks and nodes share, and columns of what differs."""

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from shared.value import Value
from shared.wire.columns import Columns
from shared.wire.devices import Gpu, GpuProcess
from shared.wire.kernel_events import KernelEvent
from shared.wire.log_events import LogEvent, LogFile
from shared.wire.setup import Listener, Setup
from shared.wire.snapshot import Beat, Identity, NodeSnapshot, Process

_Texts = tuple[str | None, ...]
_Integers = tuple[int | None, ...]
_Numbers = tuple[float | None, ...]


class IdentityColumns(Columns):
    """Who each rank is."""

    of: ClassVar[type[Value]] = Identity
    without: ClassVar[dict[str, Any]] = {"rank": 0}
    row: tuple[int, ...] = Field(description="Index into the table of identities.")
    rank: tuple[int, ...] = ()
    local_rank: _Integers = ()
    group_rank: _Integers = ()
    host: _Texts = ()
    pid: _Integers = ()
    started_at: _Numbers = ()
    gpu: _Texts = ()
    pod_uid: _Texts = ()
    container_id: _Texts = ()
    container_pid: _Integers = ()


class ProcessColumns(Columns):
    """The process of each rank."""

    of: ClassVar[type[Value]] = Process
    without: ClassVar[dict[str, Any]] = {"pid": 0}
    row: tuple[int, ...] = Field(description="Index into the table of processes.")
    pid: tuple[int, ...] = ()
    parent_pid: _Integers = ()
    threads: _Integers = ()
    rss_bytes: _Integers = ()
    started_at: _Numbers = ()


class BeatColumns(Columns):
    """The progress counters of each rank's process. A column left out of those after the look: as before it."""

    of: ClassVar[type[Value]] = Beat
    without: ClassVar[dict[str, Any]] = {"at_ns": None, "cpu_seconds": 0.0}
    at_ns: _Integers = Field(default=(), description="None: there are no counters.")
    cpu_seconds: tuple[float, ...] = ()
    main_cpu_seconds: _Numbers = ()
    main_switches: _Integers = ()
    io_bytes: _Integers = ()
    log_bytes: _Integers = ()
    children_cpu_seconds: _Numbers = ()


class FileColumns(Columns):
    """The log files of all ranks."""

    of: ClassVar[type[Value]] = LogFile
    without: ClassVar[dict[str, Any]] = {"path": ""}
    owner: tuple[int, ...] = Field(
        default=(), description="The rank that it belongs to: an index into the survey's ranks."
    )
    path: tuple[str, ...] = ()
    size_bytes: tuple[int, ...] = ()
    modified_at: _Numbers = ()
    shared: tuple[bool, ...] = ()


class EventColumns(Columns):
    """The log events of all ranks."""

    of: ClassVar[type[Value]] = LogEvent
    without: ClassVar[dict[str, Any]] = {"text": ""}
    owner: tuple[int, ...] = Field(
        default=(), description="The rank that it belongs to: an index into the survey's ranks."
    )
    row: tuple[int, ...] = Field(default=(), description="Index into the table of events.")
    rank: _Integers = ()
    text: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    stamp: tuple[str, ...] = ()
    at: _Numbers = ()


class SetupColumns(Columns):
    """The setups of a node."""

    of: ClassVar[type[Value]] = Setup
    row: tuple[int, ...] = Field(default=(), description="Index into the table of setups.")
    hosts: tuple[dict[str, tuple[str, ...]], ...] = ()
    listener: tuple[Listener | None, ...] = ()


class GpuColumns(Columns):
    """The GPUs of a node."""

    of: ClassVar[type[Value]] = Gpu
    without: ClassVar[dict[str, Any]] = {"index": 0}
    row: tuple[int, ...] = Field(default=(), description="Index into the table of GPUs.")
    index: tuple[int, ...] = ()
    uuid: _Texts = ()
    device: _Texts = ()
    utilization_percent: _Integers = ()
    memory_used_bytes: _Integers = ()
    power_watts: _Numbers = ()
    temperature_celsius: _Integers = ()
    sm_clock_mhz: _Integers = ()


class GpuProcessColumns(Columns):
    """The processes that use the GPUs of a node."""

    of: ClassVar[type[Value]] = GpuProcess
    without: ClassVar[dict[str, Any]] = {"pid": 0}
    owner: tuple[int, ...] = Field(default=(), description="The GPU that it runs on: an index into the survey's GPUs.")
    pid: tuple[int, ...] = ()
    used_bytes: _Integers = ()
    instance: _Texts = ()


class KernelEventColumns(Columns):
    """The events of a node's kernel log."""

    of: ClassVar[type[Value]] = KernelEvent
    row: tuple[int, ...] = Field(default=(), description="Index into the table of kernel events.")
    at: _Numbers = ()
    last_at: _Numbers = ()
    count: tuple[int, ...] = ()
    pid: _Integers = ()


TIMES = ("created_ns", "started_ns", "completed_ns")
"""Columns of a flight record that differ from rank to rank."""


class RecorderColumns(Value):
    """The flight records of all ranks.

    The times of all records follow each other, packed and in base64, which is read faster than lists of large numbers;
    where left out, all are zero.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    program: tuple[int, ...] = Field(description="Index into the table of programs: all columns but the times.")
    groups: tuple[tuple[int, ...], ...] = Field(description="Each record's groups: indices into the survey's table.")
    created_ns: bytes = b""
    started_ns: bytes = b""
    completed_ns: bytes = b""


class RankColumns(Value):
    """The ranks of a node."""

    identity: IdentityColumns
    looked_at_ns: _Integers
    idle_for_seconds: _Numbers
    watched_for_seconds: _Numbers = Field(default=(), description="Empty: from an agent that does not report it.")
    process: ProcessColumns
    before: BeatColumns = BeatColumns()
    after: BeatColumns = BeatColumns()
    logs: tuple[int, ...] = Field(description="Index into the table of logs, without files and events.")
    files: FileColumns = FileColumns()
    events: EventColumns = EventColumns()
    recorder: RecorderColumns
    stacks: tuple[int, ...] = Field(description="Index into the table of stacks.")
    setup: tuple[int, ...] = Field(description="Index into the setups of the survey.")

    def __len__(self) -> int:
        return len(self.identity.row)


class SurveyedGroup(Value):
    """A process group, its members written as briefly as possible."""

    name: str
    description: str = ""
    members: str | None = Field(default=None, description="Folded, or one span with a step: `0-8184/8`.")
    order: tuple[int, ...] | None = None
    timeout_ms: int | None = None


_EXCHANGED = str.maketrans("\"'", "'\"")


def exchange_quotes(row: str) -> str:
    """Swap `'` and `"` in a JSON text, or swap them back, so that it needs no escapes inside a JSON string.

    A string without escapes is read four times faster, and the rows are most of a survey.
    """
    return row.translate(_EXCHANGED)


class Tables(Value):
    """What ranks share. Each row is JSON with `'` and `"` swapped, and without the fields that are columns."""

    identities: tuple[str, ...] = ()
    processes: tuple[str, ...] = Field(default=(), description="Processes, or the reason why there is none.")
    stacks: tuple[str, ...] = Field(
        default=(), description="Stacks without thread ids, or the reason why there are none."
    )
    setups: tuple[str, ...] = Field(
        default=(),
        description="Setups without variables of single ranks, or the reason why there is none.",
    )
    logs: tuple[str, ...] = Field(
        default=(), description="Logs without files and events, or the reason why there are none."
    )
    events: tuple[str, ...] = Field(default=(), description="Log events.")
    groups: tuple[str, ...] = Field(default=(), description="Process groups.")
    programs: tuple[str, ...] = Field(
        default=(), description="Flight records without times and groups, or the reason why there is none."
    )
    gpus: tuple[str, ...] = ()
    kernel_events: tuple[str, ...] = ()


class Survey(Value):
    """A brief look at one node."""

    kind: Literal["survey"] = "survey"
    node: NodeSnapshot = Field(description="The node's snapshot, without its ranks, GPUs and kernel events.")
    others: tuple[Identity, ...] = Field(default=(), description="Ranks on the node that belong to other jobs.")
    tables: Tables
    setups: SetupColumns = SetupColumns()
    gpus: GpuColumns = GpuColumns()
    gpu_processes: GpuProcessColumns = GpuProcessColumns()
    kernel_events: KernelEventColumns = KernelEventColumns()
    ranks: RankColumns

    @property
    def schema_version(self) -> int:
        """Return the version of the node's snapshot."""
        return self.node.schema_version
