"""Where CPython keeps its threads, frames and objects, by version, on 64-bit machines and with a GIL.

3.13 and newer say most of it themselves: `_Py_DebugOffsets` stands where `_PyRuntime` begins. Of 3.11 and 3.12 it is
what their headers compile to (Include/internal/pycore_*.h), which no release has changed.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from agent.proc.memory.process_memory import ProcessMemory, Unreadable

_COOKIE = b"xdebugpy"
_NUMBERS = 96
"""Offsets that are read of `_Py_DebugOffsets`."""
_LARGEST = 1 << 20


class PythonLayout(NamedTuple):
    """Offsets in bytes."""

    interpreters: int
    """In `_PyRuntime`: the first interpreter. In each interpreter: the next one, and the newest thread."""
    next_interpreter: int
    threads: int
    modules: int
    """In an interpreter: `sys.modules`."""
    next_thread: int
    """In a thread: the next one, its number in the kernel, and what leads to the innermost frame."""
    native_id: int
    frame: tuple[int, ...]
    previous: int
    """In a frame: the next outer one, its code, where in that it is, where its stack ends, and its variables."""
    code: int
    instruction: int
    stack_top: int
    variables: int
    variables_count: int
    """In a code object: how many variables, how deep the stack may become, and the instructions."""
    stack_size: int
    instructions: int
    generator_frame: int
    """In a generator or coroutine: its frame, and the state of that, of which `suspended` is: awaits something."""
    generator_state: int
    cached_keys: int
    """In a class: the names of its instances' attributes."""
    values: str
    """How an instance leads to its attributes: by a `pointer`, by one with a `tag`, or they stand `inline`."""
    tuple_items: int = 24
    stack_pointer: bool = False
    """Is the end of a stack an address, and not a number?"""


_311 = PythonLayout(
    interpreters=40, next_interpreter=0, threads=16, modules=888,
    next_thread=8, native_id=160, frame=(56, 8),
    previous=48, code=32, instruction=56, stack_top=64, variables=72,
    variables_count=76, stack_size=68, instructions=184,
    generator_frame=80, generator_state=75, cached_keys=872, values="pointer",
)  # fmt: skip
_312 = PythonLayout(
    interpreters=40, next_interpreter=0, threads=72, modules=944,
    next_thread=8, native_id=144, frame=(56, 0),
    previous=8, code=0, instruction=56, stack_top=64, variables=72,
    variables_count=72, stack_size=64, instructions=192,
    generator_frame=72, generator_state=67, cached_keys=880, values="tag",
)  # fmt: skip
_KNOWN: Mapping[str, PythonLayout] = {"3.11": _311, "3.12": _312}

_SELF_TOLD = {
    "3.13": {"thread": 16, "frame": 25, "code": 31},
    "3.14": {"thread": 19, "frame": 28, "code": 36},
}
"""Which of the numbers of `_Py_DebugOffsets` is the first about each structure."""


def layout_of(memory: ProcessMemory, runtime: int, version: str) -> PythonLayout:
    """Return the layout of a Python whose `_PyRuntime` lies at `runtime`. Raises Unreadable of an unknown one."""
    if version in _KNOWN:
        return _KNOWN[version]
    if version not in _SELF_TOLD:
        raise Unreadable(f"the threads of Python {version} cannot be read")
    cookie, _, free_threaded, *numbers = struct.unpack(f"<8s{_NUMBERS + 2}Q", memory.read(runtime, 8 * (_NUMBERS + 3)))
    if cookie != _COOKIE or free_threaded or max(numbers[:60]) > _LARGEST:
        raise Unreadable(f"this build of Python {version} cannot be read: without a GIL everything lies elsewhere")
    return _self_told(numbers, version)


def _self_told(numbers: list[int], version: str) -> PythonLayout:
    thread, frame, code = (_SELF_TOLD[version][name] for name in ("thread", "frame", "code"))
    newer = version != "3.13"
    return _312._replace(
        interpreters=numbers[2],
        next_interpreter=numbers[5],
        threads=numbers[6],
        modules=numbers[9 if newer else 8],
        next_thread=numbers[thread + 2],
        frame=(numbers[thread + 4],),
        native_id=numbers[thread + 6],
        previous=numbers[frame + 1],
        code=numbers[frame + 2],
        instruction=numbers[frame + 3],
        variables=numbers[frame + 4],
        instructions=numbers[code + 9],
        values="inline",
        tuple_items=32 if newer else 24,
        stack_pointer=newer,
    )
