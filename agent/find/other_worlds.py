"""Finds what makes a process a rank that uses no groups of PyTorch's: the state of JAX, or the world of Open MPI.

1. JAX keeps who a process is in `jax._src.distributed.global_state`, from the beginning of `initialize` on: an object
   of Python, which `sys.modules` leads to.
2. Open MPI exports the communicator of all ranks, `ompi_mpi_comm_world`. Behind its name stand its id and the rank; of
   the pointers that follow, the first to a group that gives this process the same rank tells how many there are. Its
   fourth version keeps the job's number twice in `orte_process_info`, each time before the rank.

A world of one is whatever has merely imported the library.
"""

import re
import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from agent.find.torch_stores import LARGEST_SIZE
from agent.proc.memory.elf_symbols import find_variable
from agent.proc.memory.mappings import MemoryRegion, loaded_files
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.python.interpreter import Interpreter

_JAX, _STATE = "jax._src.distributed", "global_state"
_MPI = re.compile(r"libmpi\.so(\.\d+)*")
_WORLD, _NAME = b"ompi_mpi_comm_world", b"MPI_COMM_WORLD\0"
_MOST_BYTES = 512
_NAME_BYTES = 64
_POINTERS = 8
_RUNTIME, _PROCESS = re.compile(r"libopen-rte\.so(\.\d+)*"), b"orte_process_info"
_LEAST_JOB = 1 << 16
"""The upper half of a job's number is its launcher's."""
_COUNT_AT = 16
"""In a group, behind what each object of Open MPI begins with: how many processes it has, and which is this one."""


class World(NamedTuple):
    """All ranks that a process knows of, and which of them it is; as `TorchGroup` tells it."""

    rank: int
    size: int
    store: str | None
    """Where they met; None: that is not told."""
    is_first: bool = True
    is_awaited: bool = False


def find_world(memory: ProcessMemory, regions: Sequence[MemoryRegion]) -> World | None:
    """Return the world of a process that has mapped `regions`; None where it has none, or it cannot be read."""
    for read in (_of_jax, _of_open_mpi):
        with suppress(Unreadable):
            found = read(memory, regions)
            if found is not None and 0 <= found.rank < found.size <= LARGEST_SIZE and found.size > 1:
                return found
    return None


def _of_jax(memory: ProcessMemory, regions: Sequence[MemoryRegion]) -> World | None:
    """Step 1."""
    python = Interpreter(memory, regions)
    state = python.module(_JAX).get(_STATE)
    told = {} if state is None else python.attributes(state)
    objects = python.objects
    if not {"process_id", "num_processes", "coordinator_address"} <= told.keys():
        return None
    met = objects.text(told["coordinator_address"])
    shown = "".join(character for character in met if character.isprintable())
    return World(objects.number(told["process_id"]), objects.number(told["num_processes"]), shown or None)


def _of_open_mpi(memory: ProcessMemory, regions: Sequence[MemoryRegion]) -> World | None:
    """Step 2."""
    for library in loaded_files(regions, _MPI):
        world = find_variable(memory.read_some, library.base, _WORLD)
        data = b"" if world is None else memory.read_some(world, _MOST_BYTES)
        name = data.find(_NAME)
        if name < 0:
            continue
        _, rank = struct.unpack_from("<ii", data, name + _NAME_BYTES)
        behind = -(-(name + _NAME_BYTES + 8) // 8) * 8
        for group in struct.unpack_from(f"<{_POINTERS}Q", data, behind):
            with suppress(Unreadable):
                count, own = struct.unpack("<ii", memory.read(group + _COUNT_AT, 8))
                if own == rank < count:
                    return World(rank, count, _job_of_open_mpi(memory, regions, rank))
    return None


def _job_of_open_mpi(memory: ProcessMemory, regions: Sequence[MemoryRegion], rank: int) -> str | None:
    """Return the job's name as `mpirun` gives it to ranks in a variable."""
    for library in loaded_files(regions, _RUNTIME):
        process = find_variable(memory.read_some, library.base, _PROCESS)
        data = b"" if process is None else memory.read_some(process, _MOST_BYTES)
        pairs = Counter(struct.iter_unpack("<II", data[: len(data) // 8 * 8]))
        named = [job for (job, own), times in pairs.items() if own == rank and times > 1 and job >= _LEAST_JOB]
        return f"mpi-{named[0]}" if named else None  # what follows the process's own name is its launcher's
    return None
