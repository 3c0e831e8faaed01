"""The one object of a library that holds its flight record: where it is, how full, and whether it can be that at all.

Source: torch/csrc/distributed/c10d/FlightRecorder.hpp. The entries are a vector that is used as a ring once it has
`max_entries_` of them; `next_` is where the next one goes, `id_` its number, which `reset_epoch_` counts anew. Before
2.10, which brought `reset_epoch_`, `next_` stays 0 until the ring is full: entries are appended until then.
"""

from collections.abc import Mapping
from typing import NamedTuple

from agent.errors import Unavailable
from agent.proc.memory.cpp_containers import Objects
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.memory.torch_layouts import Layout
from shared.missing import Reason

_MOST_ENTRIES = 50_000_000
_HEADER_BYTES = 64 * 1024

HOW_TO_SWITCH_ON = (
    "start the job with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (PyTorch before 2.8) or TORCH_FR_BUFFER_SIZE=2000 "
    "(later ones; from 2.11 it is on by default)"
)

_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""PyTorch takes the first of these that is set."""


class Implausible(Unreadable):
    """What lies there is no flight recorder of this layout, or is being changed just now."""


class SwitchedOff(Unavailable):
    """PyTorch has a recorder and writes nothing into it."""

    def __init__(self, advice: str = f"; {HOW_TO_SWITCH_ON}") -> None:
        super().__init__(Reason.NOT_ENABLED, f"PyTorch's flight recorder is switched off{advice}")


def switched_off_by(environment: Mapping[str, str]) -> SwitchedOff:
    """Return what to say of a recorder that is off in a rank with these variables."""
    name = next((name for name in _SIZES if name in environment), None)
    if name is None or environment[name].strip() != "0":
        return SwitchedOff()
    return SwitchedOff(f" by {name}=0; remove that from the job's environment, or set it to 2000")


class RecorderHeader(NamedTuple):
    """A flight recorder without its entries."""

    address: int
    begin: int
    """Where its entries begin."""
    held: int
    """How many entries there are by now."""
    most: int
    next: int
    id: int
    epoch: int
    """How often it was reset: older entries count no more."""
    is_locked: bool
    """Does a thread of the process write, or read, at this moment?"""

    def is_same_ring(self, other: "RecorderHeader") -> bool:
        """Do the entries lie where they lay, and count as they did?"""
        return (self.begin, self.epoch) == (other.begin, other.epoch)


def read_header(memory: ProcessMemory, address: int, layout: Layout) -> RecorderHeader:
    """Read the recorder at `address`. Raises Implausible, Unreadable, Gone, or SwitchedOff."""
    about, entry = layout["recorder"], layout["entry"]
    data = memory.read(address, min(about.size, _HEADER_BYTES))

    def number(name: str) -> int:
        field = about.fields.get(name)
        return 0 if field is None else int.from_bytes(data[field.offset : field.offset + 8], "little")

    enabled = data[about.offset("enabled_")]
    most, next_one, id_, epoch = map(number, ("max_entries_", "next_", "id_", "reset_epoch_"))
    at = about.offset("entries_")
    begin, end, limit = (int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little") for i in range(3))
    if enabled == 0 and most == 0 and begin == end == 0:
        raise SwitchedOff
    held, rest = divmod(end - begin, entry.size)
    plausible = (
        enabled == 1
        and 0 < most <= _MOST_ENTRIES
        and begin <= end <= limit
        and rest == (limit - begin) % entry.size == 0
        and begin % 8 == 0
        and held <= most
        and (next_one < most if held == most else next_one == (held if "reset_epoch_" in about.fields else 0))
        and (epoch > 0 or id_ == held or (id_ > held == most))
    )
    if not plausible:
        raise Implausible(f"there is no flight recorder of PyTorch {' or '.join(layout.versions)} at {address:#x}")
    lock = about.offset("mutex_") + layout["mutex"].offset("lock")
    is_locked = data[lock : lock + 4] != bytes(4)
    return RecorderHeader(address, begin, held, most, next_one % held if held else 0, id_, epoch, is_locked)


class Status(NamedTuple):
    """How far a process group has got: the last sequence of each, as PyTorch counts; None before the first."""

    issued: int | None
    started: int | None
    completed: int | None


def read_statuses(paged: PagedMemory, header: RecorderHeader, layout: Layout) -> dict[int, Status]:
    """Return the status of each process group by the number that it has in this process. Raises as memory does.

    Before 2.5 it stood with the group alone: then there is none.
    """
    if "all_pg_status_" not in layout["recorder"].fields:
        return {}
    found = {}
    for at in Objects(paged, layout).map_values(header.address + layout["recorder"].offset("all_pg_status_")):
        pg_id, pointer = paged.word(at), paged.word(at + 8)
        if pointer:
            found[pg_id] = read_status(paged, pointer, layout)
    return found


def read_status(paged: PagedMemory, address: int, layout: Layout) -> Status:
    """Read the status of one process group. Raises as memory does."""
    fields = (layout["status"].offset(name) for name in ("lastEnqueuedSeq", "lastStartedSeq", "lastCompletedSeq"))
    numbers = (int.from_bytes(paged.read(address + offset, 8), "little", signed=True) for offset in fields)
    return Status(*(None if number < 0 else number for number in numbers))


def read_members(paged: PagedMemory, header: RecorderHeader, layout: Layout) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return the global ranks of each process group by its name and description, where the recorder was told them."""
    objects = Objects(paged, layout)
    found = {}
    for at in objects.map_values(header.address + layout["recorder"].offset("pg_name_to_ranks_")):
        ranks = objects.vector(at + layout["string_pair"].size, 8)
        found[objects.pair_of_strings(at)] = tuple(
            int.from_bytes(ranks[i : i + 8], "little") for i in range(0, len(ranks), 8)
        )
    return found


def read_library_version(paged: PagedMemory, header: RecorderHeader, layout: Layout) -> str:
    """Return the version of the communication library, "" where none is noted."""
    for name in ("comm_lib_version_", "nccl_version_"):
        if name in layout["recorder"].fields:
            return Objects(paged, layout).string(header.address + layout["recorder"].offset(name))
    return ""
