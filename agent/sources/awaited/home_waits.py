"""What a thread waits for in its own process: a queue, a future, an event, another thread, or what a task awaits.

Only the frames of Python's standard library are followed, whose variables are the same everywhere: `self` is what is
waited for. Who owes it is not written anywhere. That nobody is left who could is seen where Python runs no other
thread, and a thread that the waiting functions know has ended.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from agent.proc.memory.process_memory import Unreadable
from agent.proc.python.interpreter import Interpreter, PythonFrame
from agent.sources.awaited.coroutines import chain_of_loop
from agent.sources.awaited.store_keys import told
from shared.wire.stacks import Awaited, AwaitedKind, Frame, OfThread

_WAITS: tuple[tuple[AwaitedKind, re.Pattern[str], frozenset[str]], ...] = (
    # get (queue.py:171); join (queue.py:89)
    ("queue", re.compile(r"(^|/)queue\.py$"), frozenset({"get", "put", "join"})),
    # get (asyncio/queues.py:158)
    ("queue", re.compile(r"(^|/)asyncio/queues\.py$"), frozenset({"get", "put", "join"})),
    # result (concurrent/futures/_base.py:451)
    ("future", re.compile(r"(^|/)concurrent/futures/_base\.py$"), frozenset({"result", "exception"})),
    # join (threading.py:1112)
    ("thread", re.compile(r"(^|/)threading\.py$"), frozenset({"join"})),
    # wait (threading.py:622); acquire (asyncio/locks.py:113)
    ("event", re.compile(r"(^|/)(threading|asyncio/locks)\.py$"), frozenset({"wait", "acquire", "wait_for"})),
)
_INNERMOST = 6
_MOST_OBJECTS = 32
_MOST_FUNCTIONS = 8
"""Of the job's own, innermost first, in which threads are sought."""
_MOST_ENDED, _MOST_COROUTINES = 8, 16
_LONGEST_NAME = 1000
_STANDARD = re.compile(r"(^|/)(lib/python3\.\d+/(?!site-packages|dist-packages)|<frozen )")


def awaited_at_home(
    here: Interpreter, tid: int, frames: Sequence[PythonFrame], alive: frozenset[int]
) -> Awaited | None:
    """Return what a thread waits for; None where it waits in none of these ways. `alive`: Python's threads."""
    chain = chain_of_loop(here, frames)
    inner = frames if chain is None else chain.frames[::-1]
    found = _outermost(inner)
    if found is None and chain is None:
        return None
    kind, frame = found or ("task", inner[0])
    variables = here.variables(frame) if found else {}
    of = variables.get("self", 0)
    return Awaited(
        tid=tid,
        at=_place(frames[0]),
        kind=kind,
        call=told(f"{here.objects.type_name(of)}.{frame.function}" if of else frame.function),
        size=_size(here, of) if kind == "queue" else None,
        limited="timeout" in variables and here.objects.type_name(variables["timeout"]) != "NoneType",
        thread=_thread(here, of, alive) if kind == "thread" else None,
        task="" if chain is None else told(chain.task),
        chain=() if chain is None else tuple(map(_place, chain.frames[-_MOST_COROUTINES:])),
        ended=tuple(dict.fromkeys(_ended(here, (*inner, *frames), alive)))[:_MOST_ENDED],
        alone=len(alive) == 1,
    )


def _outermost(frames: Sequence[PythonFrame]) -> tuple[AwaitedKind, PythonFrame] | None:
    """Return which of the innermost frames tells: a queue waits by a condition, and that by a lock."""
    found = [
        (kind, frame)
        for frame in frames[:_INNERMOST]
        for kind, file, functions in _WAITS
        if frame.function in functions and file.search(frame.file)
    ]
    return found[-1] if found else None


def _place(frame: PythonFrame) -> Frame:
    return Frame(frame.function[:_LONGEST_NAME], frame.file[:_LONGEST_NAME], frame.line)


def _size(here: Interpreter, queue: int) -> int | None:
    """How many items it has."""
    with suppress(Unreadable):
        held = here.attributes(queue)
        return here.objects.length(held.get("queue") or held.get("_queue", 0))
    return None


def _thread(here: Interpreter, address: int, alive: frozenset[int]) -> OfThread | None:
    """Return what a Thread object tells; None where it is none, or was never started."""
    with suppress(Unreadable):
        held = here.attributes(address)
        if {"_name", "_started", "_native_id"} <= held.keys():
            number = here.objects.number(held["_native_id"])
            return OfThread(name=told(here.objects.text(held["_name"])), tid=number, alive=number in alive)
    return None


def _ended(here: Interpreter, frames: Sequence[PythonFrame], alive: frozenset[int]) -> Iterator[str]:
    """Iterate over the names of threads that have ended, as far as functions of the job's have them at hand."""
    for frame in [frame for frame in frames if not _STANDARD.search(frame.file)][:_MOST_FUNCTIONS]:
        with suppress(Unreadable):
            for value in list(here.variables(frame).values())[:_MOST_OBJECTS]:
                for each in _at_hand(here, value):
                    thread = _thread(here, each, alive)
                    if thread is not None and not thread.alive:
                        yield thread.name


def _at_hand(here: Interpreter, value: int) -> tuple[int, ...]:
    """Return an object, what is in it, or what it has for attributes."""
    with suppress(Unreadable):
        if here.objects.type_name(value) in ("list", "tuple"):
            return here.objects.items(value)[:_MOST_OBJECTS]
        return value, *list(here.attributes(value).values())[:_MOST_OBJECTS]
    return (value,)
