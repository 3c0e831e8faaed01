"""What instances of classes and dicts hold, in the memory of a process, by name.

Layouts: Include/internal/pycore_dict.h and pycore_object.h. An instance's attributes stand in a dict, or, as long as
nobody asked for that, as bare values in the order in which its class has met their names.
"""

import struct

from agent.proc.memory.process_memory import Unreadable
from agent.proc.python.layouts import PythonLayout
from agent.proc.python.objects import TYPE_AT, PythonObjects

_INSTANCE_SIZE_AT, _FLAGS_AT, _DICT_OFFSET_AT = 32, 168, 288
_INLINE_VALUES, _MANAGED_DICT = 1 << 2, 1 << 4
_VALUES_BEFORE, _DICT_BEFORE = 32, 24
_KEYS_AT, _VALUES_AT = 32, 40
_INDEX_SIZE_AT, _KIND_AT, _COUNT_AT, _ENTRIES_AT = 9, 10, 24, 32
_GENERAL = 0
_LARGEST_INDEX = 16
_INLINE_HEAD, _VALID_AT = 8, 3
"""What stands before inline values: how many there are, and whether they still count."""


def attributes(objects: PythonObjects, layout: PythonLayout, address: int) -> dict[str, int]:
    """Return where each attribute of an instance is. Raises Unreadable where it has none that can be read."""
    kind = objects.paged.word(address + TYPE_AT)
    flags = objects.paged.word(kind + _FLAGS_AT)
    if not flags & _MANAGED_DICT:
        (offset,) = struct.unpack("<q", objects.paged.read(kind + _DICT_OFFSET_AT, 8))
        return _of_dict(objects, layout, objects.paged.word(address + offset) if offset > 0 else 0)
    values, of_dict = _bare_values(objects, layout, address, flags)
    if not values:
        return _of_dict(objects, layout, of_dict)
    return _entries(objects, objects.paged.word(kind + layout.cached_keys), values)


def _bare_values(objects: PythonObjects, layout: PythonLayout, address: int, flags: int) -> tuple[int, int]:
    """Return where an instance's bare values begin, 0 for nowhere, and its dict, 0 for none."""
    managed = objects.paged.word(address - _DICT_BEFORE)
    if layout.values == "pointer":
        return objects.paged.word(address - _VALUES_BEFORE), managed
    if layout.values == "tag":
        return (managed + 1, 0) if managed & 1 else (0, managed)
    at = address + objects.paged.word(objects.paged.word(address + TYPE_AT) + _INSTANCE_SIZE_AT)
    valid = flags & _INLINE_VALUES and objects.paged.read(at + _VALID_AT, 1) != b"\0"
    return (at + _INLINE_HEAD, managed) if valid else (0, managed)


def _of_dict(objects: PythonObjects, layout: PythonLayout, address: int) -> dict[str, int]:
    if not address:
        return {}
    objects.require(address, "dict")
    values = objects.paged.word(address + _VALUES_AT)
    if values and layout.values == "inline":
        values += _INLINE_HEAD
    return _entries(objects, objects.paged.word(address + _KEYS_AT), values)


def _entries(objects: PythonObjects, keys: int, values: int) -> dict[str, int]:
    """Return the values by key: at `values`, in the order of the keys, or where that is 0 beside each key."""
    head = objects.paged.read(keys, _ENTRIES_AT)
    index_size, kind = head[_INDEX_SIZE_AT], head[_KIND_AT]
    count = int.from_bytes(head[_COUNT_AT:], "little")
    if index_size > _LARGEST_INDEX:
        raise Unreadable("a dict of millions of keys")
    width = 3 if kind == _GENERAL else 2
    table = objects.pointers(keys + _ENTRIES_AT + (1 << index_size), width * count)
    names, beside = table[width - 2 :: width], table[width - 1 :: width]
    found = objects.pointers(values, count) if values else beside
    return {
        objects.text(name): value
        for name, value in zip(names, found, strict=True)
        if name and value and objects.type_name(name) == "str"
    }
