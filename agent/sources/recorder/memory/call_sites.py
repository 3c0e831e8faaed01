"""The Python stacks that PyTorch notes with each entry: where in the user's code an operation was called.

Source: torch/csrc/profiler/combined_traceback.h. Per frame a code object, which PyTorch keeps alive as long as the
entry, and the instruction's offset in bytes. Loops call from the same places again and again: equal stacks are read
once.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from agent.proc.memory.cpp_containers import Objects
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import Unreadable
from agent.proc.memory.torch_layouts import Layout
from agent.proc.python.code_objects import CodeObjects
from agent.proc.python.objects import PythonObjects

_MOST_FRAMES = 256

Frames = Sequence[Mapping[str, Any]]


class CallSites:
    """Reads the stacks of one process's entries, as frames of a dump, innermost first; none where it cannot."""

    def __init__(self, paged: PagedMemory, layout: Layout, python: str | None) -> None:
        """`python`: its version, e.g. `3.11`."""
        self._objects = Objects(paged, layout)
        self._frames_at: int | None = None
        self._item = layout["frame"].size if "frame" in layout.structures else 16
        self._known: dict[bytes, Frames] = {}
        self._frames: dict[bytes, Mapping[str, Any]] = {}
        try:
            self._code = CodeObjects(PythonObjects(paged, python))
            self._frames_at = layout["traceback"].offset("frames_")
        except (Unreadable, KeyError):
            self._frames_at = None

    def of(self, traceback: int) -> Frames:
        """Return the frames of the stack at an address, 0 for none. Raises Gone, or Unavailable past a limit."""
        if not traceback or self._frames_at is None:
            return ()
        try:
            stack = self._objects.vector(traceback + self._frames_at, self._item)[: _MOST_FRAMES * self._item]
            known = self._known.get(stack)
            if known is None:
                parts = (stack[at : at + self._item] for at in range(0, len(stack), self._item))
                known = self._known[stack] = tuple(map(self._frame, parts))
        except Unreadable:
            return ()
        return known

    def _frame(self, part: bytes) -> Mapping[str, Any]:
        frame = self._frames.get(part)
        if frame is None:
            code, instruction = struct.unpack_from("<Qi", part)
            name, file, line = self._code.frame(code, instruction)
            frame = self._frames[part] = {"name": name, "filename": file, "line": line}
        return frame
