"""The keys that a thread waits for in a store of PyTorch's, by what it has called the store with.

A method of a store is a function of C: what it was called with stands on the stack of the frame that called it. Stores
lie within stores, each of which sets its prefix before the key; these are C++ objects (agent/find/torch_stores.py).
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

from agent.find.torch_stores import NoSuchObject, Vtables, find_vtables, walk
from agent.proc.memory.mappings import MemoryRegion
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.python.interpreter import CCall, Interpreter, PythonFrame
from shared.redaction.redact import redact
from shared.wire.stacks import Awaited, Frame

# torch._C._distributed_c10d.PrefixStore        torch._C._distributed_c10d.TCPStore
_STORE = re.compile(r"torch\._C\._distributed_c10d\.\w*Store")
_UNTIL_SET = frozenset({"get", "wait", "multi_get", "queue_pop"})
"""These return once a key is set; all others as soon as the store answers."""
_MOST_KEYS = 16
_LONGEST_KEY = 300
_OBJECT_AT = 16
"""In an object of Python that stands for one of C++ (pybind11/detail/common.h): where that is."""


class StoreKeys:
    """Tells what threads of one process wait for in stores."""

    def __init__(self, here: Interpreter, memory: ProcessMemory, regions: Sequence[MemoryRegion]) -> None:
        self._here = here
        self._memory = memory
        self._regions = regions

    def awaited_by(self, tid: int, frame: PythonFrame) -> Awaited | None:
        """Return what a thread waits for, by its innermost frame; None where that called no store."""
        for call in self._here.calls(frame):
            with suppress(Unreadable):
                if _STORE.fullmatch(self._here.objects.type_name(call.of)) and (keys := self._keys(call)):
                    return Awaited(
                        tid=tid,
                        at=Frame(frame.function, frame.file, frame.line),
                        kind="store_key" if call.function in _UNTIL_SET else "store_answer",
                        call=call.function,
                        keys=tuple(told(key) for key in keys),
                        prefix=told(self._prefix(call.of)),
                    )
        return None

    def _keys(self, call: CCall) -> list[str]:
        """Return the keys that it was called with: one, or a list of them."""
        objects, given = self._here.objects, next(iter(call.arguments), 0)
        if not given:
            return []
        keys = objects.items(given)[:_MOST_KEYS] if objects.type_name(given) == "list" else (given,)
        return [objects.text(key) for key in keys]

    def _prefix(self, store: int) -> str:
        if self._vtables is None:
            return ""
        with suppress(Unreadable, NoSuchObject):
            prefixes, _ = walk(self._memory, self._here.objects.paged.word(store + _OBJECT_AT), self._vtables)
            return "".join(f"{prefix.decode(errors='replace')}/" for prefix in reversed(prefixes))
        return ""

    @cached_property
    def _vtables(self) -> Vtables | None:
        return find_vtables(self._memory, self._regions)


def told(text: str) -> str:
    """What may be told of a text of the job's."""
    return redact("".join(character for character in text if character.isprintable()))[:_LONGEST_KEY]
