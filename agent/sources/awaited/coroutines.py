"""What an event loop's own task waits for: the chain of coroutines from it to the innermost thing that is awaited.

A loop that runs until a task is done has that task among its variables (asyncio.run, run_until_complete, uvloop alike).
A task leads to its coroutine, a coroutine to what it awaits, and so on: through other tasks, and of what is gathered
to the first that is not done. Layouts: Modules/_asynciomodule.c.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent.proc.python.interpreter import Interpreter, PythonFrame

_RUNS_TASK = (
    ("run", re.compile(r"(^|/)asyncio/runners\.py$"), "task"),
    ("run_until_complete", re.compile(r"(^|/)asyncio/base_events\.py$"), "future"),
)
"""Functions that wait for a task, where they are, and the variable that has it."""
_TASK, _GATHERED = "_asyncio.Task", "_GatheringFuture"
_STEPS = frozenset({"coroutine", "generator", "async_generator"})
_WRAPPERS = frozenset({"_asyncio.FutureIter", "coroutine_wrapper", "async_generator_asend"})
_WRAPPED_AT = 16
_PENDING = bytes(4)
_MOST_STEPS = 64


class _TaskLayout(NamedTuple):
    coroutine: int
    name: int
    state: int


_LAYOUTS: Mapping[str, _TaskLayout] = {
    **dict.fromkeys(("3.11", "3.12"), _TaskLayout(136, 144, 88)),
    "3.13": _TaskLayout(120, 128, 96),
    "3.14": _TaskLayout(128, 136, 104),
}


class AwaitChain(NamedTuple):
    """Coroutines with those that they await, outermost first, and the task that the innermost belongs to."""

    task: str
    frames: tuple[PythonFrame, ...]


def chain_of_loop(here: Interpreter, frames: Sequence[PythonFrame]) -> AwaitChain | None:
    """Return what the loop that runs in a thread waits for; None where no loop does, or not for a task."""
    for frame in frames:
        for function, file, variable in _RUNS_TASK:
            if frame.function == function and file.search(frame.file):
                task = here.variables(frame).get(variable, 0)
                if task and here.objects.type_name(task) == _TASK:
                    return _chain(here, task)
    return None


def _chain(here: Interpreter, awaited: int) -> AwaitChain | None:
    layout, frames, task = _LAYOUTS[here.objects.version], list[PythonFrame](), ""
    for _ in range(_MOST_STEPS):
        kind = here.objects.type_name(awaited) if awaited else ""
        if kind in _STEPS:
            step = here.awaited(awaited)
            if step is None:
                break
            frames.append(step[0])
            awaited = step[1]
        elif kind in _WRAPPERS:
            awaited = here.objects.pointer(awaited + _WRAPPED_AT)
        elif kind == _TASK:
            task = _name(here, here.objects.pointer(awaited + layout.name))
            awaited = here.objects.pointer(awaited + layout.coroutine)
        elif kind == _GATHERED:
            awaited = _first_pending(here, awaited, layout)
        else:
            break
    return AwaitChain(task, tuple(frames)) if frames else None


def _name(here: Interpreter, address: int) -> str:
    """Some Pythons make the name of a task from a number when they are asked for it."""
    kind = here.objects.type_name(address)
    return here.objects.text(address) if kind == "str" else f"Task-{here.objects.number(address)}"


def _first_pending(here: Interpreter, gathered: int, layout: _TaskLayout) -> int:
    children = here.attributes(gathered).get("_children", 0)
    for child in here.objects.items(children) if children else ():
        if here.objects.type_name(child) == _TASK and here.objects.paged.read(child + layout.state, 4) == _PENDING:
            return child
    return 0
