"""Finds the agent that makes a process a rank of a job whose ranks only call each other: torch.distributed.rpc.

Such a rank has no process group. It has one `TensorPipeAgent`, to which a variable that libtorch_cpu.so exports leads
from the end of `init_rpc` until the process leaves.

Layout: rpc_agent.h and tensorpipe_agent.h in torch/csrc/distributed/rpc, tried with 2.13. The rank stands at the front.
The size follows the last of three stores that lie in the object side by side. These are found by their vtables: what
stands before them is made of many classes. A group that ranks may join and leave has no size, and is not told.
"""

import struct

from agent.find.torch_stores import (
    FIELDS_AT,
    LARGEST_SIZE,
    PREFIX,
    NoSuchObject,
    TorchGroup,
    Vtables,
    name_of,
    string,
    walk,
)
from agent.proc.memory.process_memory import ProcessMemory, Unreadable

_NAME_AT = 24
"""Behind the agent's vtable, and the vtable and the reference counts of the `WorkerInfo` in it."""
_MOST_BYTES = 2048
_STORES = 3


def current_agent(memory: ProcessMemory, vtables: Vtables) -> TorchGroup | None:
    """Return what a process is by its agent, which calls and is called, as a group; None where it has none."""
    if vtables.current_agent is None:
        return None
    try:
        address = memory.word(vtables.current_agent)
        if vtables.agent is None or memory.word(address) != vtables.agent:
            return None
        _, after_name = string(memory, address + _NAME_AT)
        (rank,) = struct.unpack("<h", memory.read(after_name, 2))
        last, after_stores = _stores(memory, address, vtables)
        (size,) = struct.unpack("<i", memory.read(after_stores, 4))
        if not 0 <= rank < size <= LARGEST_SIZE:
            return None
        _, end = walk(memory, last, vtables)
        return TorchGroup(vtables, address, rank, size, name_of(memory, end, vtables), False)
    except (NoSuchObject, Unreadable):
        return None


def _stores(memory: ProcessMemory, address: int, vtables: Vtables) -> tuple[int, int]:
    """Return where the last of the agent's own stores begins and where it ends."""
    data = memory.read_some(address, _MOST_BYTES)
    words = [word for (word,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8])]
    found = [address + 8 * at for at, word in enumerate(words) if vtables.stores.get(word) == PREFIX][:_STORES]
    if len(found) < _STORES:
        raise NoSuchObject
    _, inner = string(memory, found[-1] + FIELDS_AT)
    return found[-1], inner + 8
