"""The threads of a Python in the memory of its process, and their frames, innermost first.

1. `_PyRuntime` and `Py_Version`, which every Python exports, tell where it begins and which it is.
2. From there a list leads to the interpreters, and from each to its threads, which know their number in the kernel.
3. A thread knows its innermost frame; a frame its code, its variables, and the stack of values that it works on. While
   a function of C runs, what called it stands on that stack: the function, what it is a method of, and the arguments.

Nothing is stopped: what a thread that runs shows may be torn, and is refused where it is not what it should be.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from agent.proc.memory.elf_symbols import find_variable
from agent.proc.memory.mappings import MemoryRegion, loaded_files
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.python import attributes
from agent.proc.python.code_objects import CodeObjects
from agent.proc.python.layouts import layout_of
from agent.proc.python.objects import PythonObjects

# python3.11        libpython3.13.so.1.0        python
_PYTHON = re.compile(r"(lib)?python[\d.]*(\.so[\d.]*)?")
_MOST_GIVEN = 4 * 1024 * 1024
"""Bytes that are handed out of one process: a tenth of a second where it is honest, half a second where it is not."""
_MOST_INTERPRETERS, _MOST_THREADS, _MOST_FRAMES = 16, 4096, 64
_MOST_VARIABLES, _DEEPEST_STACK = 1024, 512
_OF_NO_FUNCTION = "<shim>"
"""The file of the code that 3.12 has in frames between others."""
_NAMES_AT = 96
_CELL_CONTENT_AT = 16
_SUSPENDED = -1
_MODULE_DICT_AT = 16
_BOUND, _BOUND_TO_AT = "builtin_function_or_method", 24
_DEFINED_AT = {_BOUND: 16, "method_descriptor": 40}
"""Where functions of C, and methods that are none of any object yet, lead to what defines them."""


class PythonFrame(NamedTuple):
    """Where a thread or a coroutine is in one function."""

    function: str
    file: str
    line: int
    address: int


class CCall(NamedTuple):
    """A function of C that runs, and with what: addresses of objects."""

    function: str
    of: int
    """What it is a method of."""
    arguments: tuple[int, ...]


class Interpreter:
    """The Python of one process. Its methods raise Unreadable, Gone, or Unavailable past a limit."""

    def __init__(self, memory: ProcessMemory, regions: Sequence[MemoryRegion]) -> None:
        """Raises Unreadable where there is none, or one that is not known."""
        self._runtime, version = _find(memory, regions)
        self._layout = layout_of(memory, self._runtime, version)
        self.objects = PythonObjects(PagedMemory(memory, most_given=_MOST_GIVEN), version)
        self._code = CodeObjects(self.objects)

    def threads(self) -> dict[int, int]:
        """Return where Python keeps each of its threads, by the numbers that these have in their own namespace."""
        read, layout = self.objects.paged.word, self._layout
        found: dict[int, int] = {}
        interpreter = read(self._runtime + layout.interpreters)
        for _ in range(_MOST_INTERPRETERS):
            thread = read(interpreter + layout.threads) if interpreter else 0
            while thread and len(found) < _MOST_THREADS and (number := read(thread + layout.native_id)) not in found:
                found[number] = thread
                thread = read(thread + layout.next_thread)
            interpreter = read(interpreter + layout.next_interpreter) if interpreter else 0
        return found

    def module(self, name: str) -> dict[str, int]:
        """Return where each of the globals of a module is; none where it is not imported."""
        interpreter = self.objects.paged.word(self._runtime + self._layout.interpreters)
        modules = self.objects.paged.word(interpreter + self._layout.modules)
        module = attributes.value_of(self.objects, modules, name)
        return {} if module is None else attributes.of_dict(self.objects, self._layout, self._dict_of(module))

    def _dict_of(self, module: int) -> int:
        self.objects.require(module, "module")
        return self.objects.paged.word(module + _MODULE_DICT_AT)

    def frames(self, thread: int) -> list[PythonFrame]:
        """Return the innermost frames of a thread."""
        for offset in self._layout.frame:
            thread = self.objects.paged.word(thread + offset)
        return list(self._frames(thread))

    def _frames(self, address: int) -> Iterator[PythonFrame]:
        """Between frames of functions stand those that begin a piece of C: these have no code."""
        for _ in range(_MOST_FRAMES):
            if not address:
                return
            code = self.objects.pointer(address + self._layout.code)
            if code and self.objects.type_name(code) == "code":
                frame = self._frame(address, code)
                if frame.file != _OF_NO_FUNCTION:
                    yield frame
            address = self.objects.paged.word(address + self._layout.previous)

    def _frame(self, address: int, code: int) -> PythonFrame:
        at = self.objects.paged.word(address + self._layout.instruction) - (code + self._layout.instructions)
        name, file, line = self._code.frame(code, max(0, at))
        return PythonFrame(name, file, line, address)

    def variables(self, frame: PythonFrame) -> dict[str, int]:
        """Return where the value of each local variable is that has one."""
        objects, layout = self.objects, self._layout
        code = objects.pointer(frame.address + layout.code)
        names = objects.items(objects.paged.word(code + _NAMES_AT))
        values = objects.pointers(frame.address + layout.variables, len(names))
        held = ((objects.text(name), self._in_cell(value)) for name, value in zip(names, values, strict=True) if value)
        return {name: value for name, value in held if value}

    def _in_cell(self, value: int) -> int:
        """What functions within this one use, too, stands in a cell."""
        in_cell = self.objects.type_name(value) == "cell"
        return self.objects.pointer(value + _CELL_CONTENT_AT) if in_cell else value

    def calls(self, frame: PythonFrame) -> Iterator[CCall]:
        """Iterate over what may be the function of C that the innermost frame waits for, the latest on its stack first.

        How far the stack is filled is not noted while it runs, so that what stands there may be left over. Only what
        has as many arguments as the instruction says is taken.
        """
        objects, layout = self.objects, self._layout
        code = objects.pointer(frame.address + layout.code)
        variables, depth = (
            struct.unpack("<i", objects.paged.read(code + at, 4))[0]
            for at in (layout.variables_count, layout.stack_size)
        )
        if not (0 <= variables <= _MOST_VARIABLES and 0 <= depth <= _DEEPEST_STACK):
            raise Unreadable(f"a frame of {variables} variables and a stack of {depth}")
        stack = objects.pointers(frame.address + layout.variables + 8 * variables, depth)
        given = objects.paged.read(objects.paged.word(frame.address + layout.instruction), 2)[1]
        for at in range(depth - given - 2, -1, -1):
            function, of = (stack[at], stack[at + 1]) if stack[at] else (stack[at + 1], 0)
            name = self._function_of_c(function)
            if name is not None and (of or self.objects.type_name(function) == _BOUND):
                bound = of or self.objects.pointer(function + _BOUND_TO_AT)
                yield CCall(name, bound, stack[at + 2 : at + 2 + given])

    def _function_of_c(self, address: int) -> str | None:
        """What is left over on a stack may have been freed."""
        read = self.objects.paged.word
        with suppress(Unreadable):
            at = _DEFINED_AT.get(self.objects.type_name(address))
            return None if at is None else self.objects.name(read(read(address + at)))
        return None

    def awaited(self, coroutine: int) -> tuple[PythonFrame, int] | None:
        """Return where a coroutine stands, and what it awaits; None where it runs, or has ended."""
        layout, objects = self._layout, self.objects
        objects.require(coroutine, "coroutine", "async_generator", "generator")
        (state,) = struct.unpack("<b", objects.paged.read(coroutine + layout.generator_state, 1))
        address = coroutine + layout.generator_frame
        code = objects.pointer(address + layout.code)
        if state != _SUSPENDED or objects.type_name(code) != "code":
            return None
        return self._frame(address, code), objects.pointer(self._stack_end(address) - 8)

    def _stack_end(self, frame: int) -> int:
        if self._layout.stack_pointer:
            return self.objects.paged.word(frame + self._layout.stack_top)
        filled = int.from_bytes(self.objects.paged.read(frame + self._layout.stack_top, 4), "little", signed=True)
        return frame + self._layout.variables + 8 * filled

    def attributes(self, address: int) -> dict[str, int]:
        """Return where each attribute of an instance is."""
        return attributes.attributes(self.objects, self._layout, address)


def _find(memory: ProcessMemory, regions: Sequence[MemoryRegion]) -> tuple[int, str]:
    """Step 1."""
    for file in loaded_files(regions, _PYTHON):
        found = [find_variable(memory.read_some, file.base, name) for name in (b"_PyRuntime", b"Py_Version")]
        if None not in found:
            runtime, version = (address for address in found if address is not None)
            number = memory.word(version)
            return runtime, f"{number >> 24}.{number >> 16 & 0xFF}"
    raise Unreadable("no Python of version 3.11 or newer is loaded")
