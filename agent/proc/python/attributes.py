"""What instances of classes and dicts hold, in the memory of a process, by name.

Layouts: Include/internal/pycore_dict.h and pycore_object.h. An instance's attributes stand in a dict, or, as long as
nobody asked for that, as bare values in the order in which its class has met their names.
"""

import struct

from agent.proc.memory.process_memory import Unreadable
from agent.proc.python.layouts import PythonLayout
from agent.proc.python.objects import SIZE_AT, TYPE_AT, PythonObjects

_INSTANCE_SIZE_AT, _FLAGS_AT, _DICT_OFFSET_AT = 32, 168, 288
_INLINE_VALUES, _MANAGED_DICT = 1 << 2, 1 << 4
_VALUES_BEFORE, _DICT_BEFORE = 32, 24
_KEYS_AT, _VALUES_AT = 32, 40
_INDEX_SIZE_AT, _KIND_AT, _COUNT_AT, _ENTRIES_AT = 9, 10, 24, 32
_GENERAL = 0
_LARGEST_INDEX = 16
_AT_ONCE, _MOST_KEYS = 256, 16_384
_INLINE_HEAD, _VALID_AT = 8, 3
"""What stands before inline values: how many there are, and whether they still count."""


def attributes(objects: PythonObjects, layout: PythonLayout, address: int) -> dict[str, int]:
    """Return where each attribute of an instance is. Raises Unreadable where it has none that can be read."""
    kind = objects.paged.word(address + TYPE_AT)
    flags = objects.paged.word(kind + _FLAGS_AT)
    if not flags & _MANAGED_DICT:
        (offset,) = struct.unpack("<q", objects.paged.read(kind + _DICT_OFFSET_AT, 8))
        return of_dict(objects, layout, objects.paged.word(address + offset) if offset > 0 else 0)
    values, owned = _bare_values(objects, layout, address, flags)
    if not values:
        return of_dict(objects, layout, owned)
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


def of_dict(objects: PythonObjects, layout: PythonLayout, address: int) -> dict[str, int]:
    """Return where each value of a dict is; none at no address."""
    if not address:
        return {}
    objects.require(address, "dict")
    values = objects.paged.word(address + _VALUES_AT)
    if values and layout.values == "inline":
        values += _INLINE_HEAD
    return _entries(objects, objects.paged.word(address + _KEYS_AT), values)


def value_of(objects: PythonObjects, address: int, name: str) -> int | None:
    """Return one value of a dict of whatever size, by a key that is a text; None where it has none of that name."""
    objects.require(address, "dict")
    keys = objects.paged.word(address + _KEYS_AT)
    at, width, count = _table(objects, keys)
    for first in range(0, min(count, _MOST_KEYS), _AT_ONCE):
        words = objects.pointers(at + 8 * width * first, width * min(_AT_ONCE, count - first))
        for key, value in zip(words[width - 2 :: width], words[width - 1 :: width], strict=True):
            if key and value and objects.paged.word(key + SIZE_AT) == len(name) and objects.text(key) == name:
                return value
    return None


def _table(objects: PythonObjects, keys: int) -> tuple[int, int, int]:
    """Return where the keys of a dict begin that have their values beside them, how many words each takes, and how
    many there are.
    """
    head = objects.paged.read(keys, _ENTRIES_AT)
    index_size, kind = head[_INDEX_SIZE_AT], head[_KIND_AT]
    if index_size > _LARGEST_INDEX:
        raise Unreadable("a dict of millions of keys")
    count = int.from_bytes(head[_COUNT_AT:], "little")
    return keys + _ENTRIES_AT + (1 << index_size), 3 if kind == _GENERAL else 2, count


def _entries(objects: PythonObjects, keys: int, values: int) -> dict[str, int]:
    """Return the values by key: at `values`, in the order of the keys, or where that is 0 beside each key."""
    at, width, count = _table(objects, keys)
    table = objects.pointers(at, width * count)
    names, beside = table[width - 2 :: width], table[width - 1 :: width]
    found = objects.pointers(values, count) if values else beside
    return {
        objects.text(name): value
        for name, value in zip(names, found, strict=True)
        if name and value and objects.type_name(name) == "str"
    }
