"""The source `awaited`: what the threads of a rank wait for, read from its Python's memory without stopping it.

A stack tells where a thread waits. What for stands beside it: the key that a store was asked for, the root of an
operation, the queue and how much is in it, the coroutines of a task. Only what waits in one of the known ways is
followed; of any other thread no more is read than its frames.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.memory.mappings import MemoryRegion, read_mappings
from agent.proc.memory.process_memory import ProcessMemory, Unreadable, open_memory
from agent.proc.procfs import ProcFs
from agent.proc.python.interpreter import Interpreter
from agent.sources.awaited.home_waits import awaited_at_home
from agent.sources.awaited.rooted_calls import rooted_call
from agent.sources.awaited.semaphores import awaited_of_processes
from agent.sources.awaited.store_keys import StoreKeys
from agent.sources.awaited.store_server import keys_awaited
from agent.sources.look_context import LookContext
from agent.sources.source import Answer, LookDepth
from shared.errors import NotPermitted
from shared.missing import Reason
from shared.wire.stacks import Awaited, ServedKey

_SECONDS = 1.0
_MOST_THREADS = 64
_INIT = 1


class AwaitedSource:
    """Fills `awaited` and `served`."""

    name = "awaited"

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        if question.brief or question.stacks == "none":
            return {self.name: ()}
        procfs, pid = context.procfs, rank.stat.pid
        if procfs.stat(pid).state == "D":
            raise Unavailable(Reason.REFUSED, "the memory map of a process that the kernel holds is not read")
        with open_memory(procfs, rank.stat, deadline.at_most(_SECONDS)) as memory:
            regions = read_mappings(procfs, pid)
            here = Interpreter(memory, regions)
            awaited = tuple(_awaited(here, memory, regions, _numbers(procfs, pid)))
            limit = deadline.at_most(_SECONDS)
            awaited = tuple(_told_whether_lone(each, procfs, pid, limit) for each in awaited)
            served = tuple(keys_awaited(procfs, pid, memory, regions))
        return {self.name: awaited, "served": served or _served_by_launcher(procfs, rank, deadline)}


def _awaited(
    here: Interpreter, memory: ProcessMemory, regions: Sequence[MemoryRegion], tids: Mapping[int, int]
) -> Iterator[Awaited]:
    """One that goes on while it is read costs the others nothing."""
    threads, stores = here.threads(), StoreKeys(here, memory, regions)
    for inner in sorted(threads.keys() & tids.keys())[:_MOST_THREADS]:
        with suppress(Unreadable):
            frames = here.frames(threads[inner])
            if not frames:
                continue
            found = stores.awaited_by(tids[inner], frames[0]) or rooted_call(here, tids[inner], frames)
            found = found or awaited_of_processes(here, regions, tids[inner], frames)
            found = found or awaited_at_home(here, tids[inner], frames, frozenset(threads))
            if found is not None:
                yield found


def _told_whether_lone(awaited: Awaited, procfs: ProcFs, pid: int, deadline: Deadline) -> Awaited:
    """Tell of what processes share whether another of the same user has it; where one cannot be asked, nothing."""
    shared = awaited.shared
    if shared is None or not shared.memory:
        return awaited
    memory, uids = f" {shared.memory} ".encode(), procfs.uids(pid)
    for other in procfs.pids():
        if other != pid and procfs.uids(other) == uids and _may_have(memory, procfs, other, deadline):
            return awaited
    return awaited.model_copy(update={"shared": shared.model_copy(update={"lone": True})})


def _may_have(memory: bytes, procfs: ProcFs, pid: int, deadline: Deadline) -> bool:
    """Is it in the list of what a process has mapped, or can that not be read? The first process is no job's then."""
    try:
        return deadline.left() <= 0.0 or procfs.stat(pid).state == "D" or memory in procfs.maps(pid)
    except Gone:
        return False
    except NotPermitted:
        return pid != _INIT


def _served_by_launcher(procfs: ProcFs, rank: Rank, deadline: Deadline) -> tuple[ServedKey, ...]:
    """torchrun serves the store of its ranks itself. One of them tells, and of a parent of the same user alone."""
    if rank.identity.local_rank not in (0, None):
        return ()
    with suppress(Gone, NotPermitted, Unavailable):
        parent = procfs.stat(procfs.stat(rank.stat.pid).parent_pid)
        if procfs.uids(parent.pid) == procfs.uids(rank.stat.pid):
            with open_memory(procfs, parent, deadline.at_most(_SECONDS)) as memory:
                return tuple(keys_awaited(procfs, parent.pid, memory, read_mappings(procfs, parent.pid)))
    return ()


def _numbers(procfs: ProcFs, pid: int) -> Mapping[int, int]:
    """Return our numbers of a process's threads by those in its own namespace."""
    tids = procfs.tids(pid)
    return {tid if procfs.inner_pid(pid) == pid else procfs.inner_pid(pid, tid): tid for tid in tids}
