"""What a thread waits for that processes share: a lock, barrier, event, condition or semaphore of multiprocessing's.

Each is made of semaphores in memory that all of them have mapped. A semaphore holds how often it may still be taken,
and not who has taken it: of a lock no more is known than whether this process holds it. Layouts: CPython's
Modules/_multiprocessing/semaphore.c; glibc's sysdeps/nptl/internaltypes.h.
"""

import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile

from agent.proc.memory.mappings import MemoryRegion
from agent.proc.memory.process_memory import Unreadable
from agent.proc.python.interpreter import Interpreter, PythonFrame
from agent.sources.awaited.store_keys import told
from shared.wire.stacks import Awaited, Frame, OfProcesses, SharedKind

# wait (multiprocessing/synchronize.py:268); __enter__ (multiprocess/synchronize.py:95)
_SHARED = re.compile(r"(^|/)multiprocess(ing)?/synchronize\.py$")
# wait (threading.py:697); get (multiprocessing/queues.py:103)
_AROUND = re.compile(r"(^|/)(threading|multiprocess(ing)?/\w+)\.py$")
_SEMAPHORE = re.compile(r"_multiprocess(ing)?\.SemLock")
_KINDS: dict[str, SharedKind] = {"Barrier": "barrier", "Condition": "condition", "Event": "event"}
_HANDLE_AT, _COUNT_AT = 16, 32
_COUNTS = struct.Struct("=ii")
"""How often this process has taken it, and how often all may at once."""
_MOST_TAKEN = (1 << 31) - 1


def awaited_of_processes(
    here: Interpreter, regions: Sequence[MemoryRegion], tid: int, frames: Sequence[PythonFrame]
) -> Awaited | None:
    """Return which semaphore a thread waits for, and as what it serves; None where it waits for none."""
    semaphore = _semaphore(here, frames[0])
    if not semaphore:
        return None
    around = list(takewhile(lambda frame: _AROUND.search(frame.file), frames))
    variables = here.variables(around[-1]) if around else {}
    of = variables.get("self", 0)
    name = here.objects.type_name(of) if of else ""
    call = f"{name}.{around[-1].function}" if of else "acquire"
    return Awaited(
        tid=tid,
        at=Frame(frames[0].function, frames[0].file, frames[0].line),
        kind="semaphore",
        call=told(call),
        limited="timeout" in variables and here.objects.type_name(variables["timeout"]) != "NoneType",
        shared=_shared(here, regions, semaphore, _KINDS.get(name), of),
    )


def _semaphore(here: Interpreter, frame: PythonFrame) -> int:
    """Return the object that its innermost frame waits by, 0 for none."""
    if _SHARED.search(frame.file):
        held = here.attributes(here.variables(frame).get("self", 0))
        inner = held.get("_wait_semaphore")
        return (held if inner is None else here.attributes(inner)).get("_semlock", 0)
    for call in here.calls(frame):
        with suppress(Unreadable):
            if call.function == "acquire" and _SEMAPHORE.fullmatch(here.objects.type_name(call.of)):
                return call.of
    return 0


def _shared(
    here: Interpreter, regions: Sequence[MemoryRegion], semaphore: int, kind: SharedKind | None, of: int
) -> OfProcesses:
    read = here.objects.paged
    here.objects.require(semaphore, "_multiprocessing.SemLock", "_multiprocess.SemLock")
    at = read.word(semaphore + _HANDLE_AT)
    taken, most = _COUNTS.unpack(read.read(semaphore + _COUNT_AT, _COUNTS.size))
    region = next((each for each in regions if each.start <= at < each.end), None)
    parties, come = _met(here, of) if kind == "barrier" else (None, None)
    return OfProcesses(
        kind=kind or ("lock" if most == 1 else "semaphore"),
        memory="" if region is None else f"{region.device} {region.inode}",
        mine=most == 1 and taken > 0,
        parties=parties,
        come=come,
    )


def _met(here: Interpreter, barrier: int) -> tuple[int | None, int | None]:
    """Return how many meet at a barrier, and how many have come: who sleeps there counts on one semaphore."""
    with suppress(Unreadable, KeyError):
        held = here.attributes(barrier)
        condition = here.attributes(held["_cond"])
        asleep, woken = (_value(here, condition[name]) for name in ("_sleeping_count", "_woken_count"))
        return here.objects.number(held["_parties"]), max(0, asleep - woken)
    return None, None


def _value(here: Interpreter, semaphore: int) -> int:
    """How often a semaphore may still be taken."""
    at = here.objects.paged.word(here.attributes(semaphore)["_semlock"] + _HANDLE_AT)
    return here.objects.paged.word(at) & _MOST_TAKEN
