"""Finds where a loaded program or library keeps a variable, from the ELF tables in the memory of its process.

Nothing is read from files: those of a container may not be where its memory map says, may have been replaced
since, or may lie on layers that number them differently. The memory is the inspected process's own and may be
made up to waste our time, so every table and every chain is bounded. 64-bit little-endian machines only.

Found are symbols that other files may link to: functions, variables, and the vtables of classes. What a file keeps to
itself stands in its symbol table on disk alone (symbol_tables.py).

Formats: elf(5); the hash table that linkers write since 2006: https://flapenguin.me/elf-dt-gnu-hash
"""

import struct

from agent.proc.memory.elf_image import NotElf, Read, exactly, read_image

_MOST_TAGS = 512
_LONGEST_CHAIN = 4096
_CHAIN_STEP = 64

_STRTAB, _SYMTAB, _GNU_HASH = 5, 6, 0x6FFF_FEF5
_VTABLE_HEAD = 16
"""Offset to top and type information stand before what an object's vtable pointer leads to (Itanium C++ ABI, 2.5.2)."""


def find_variable(read: Read, base: int, name: bytes) -> int | None:
    """Return the address of the variable `name` that the file loaded at `base` defines; None if it does not."""
    try:
        return _find(read, base, name)
    except NotElf:
        return None


def find_vtable(read: Read, base: int, symbol: bytes) -> int | None:
    """Return what every object of a class begins with, given its `_ZTV…` symbol; None if the file does not define it.

    Of a class whose own vtable is its first one, as with any class that does not have several bases.
    """
    address = find_variable(read, base, symbol)
    return None if address is None else address + _VTABLE_HEAD


def _find(read: Read, base: int, name: bytes) -> int:
    image = read_image(read, base)
    dynamic, size = image.dynamic
    tags = _tags(exactly(read, dynamic, min(size, 16 * _MOST_TAGS) // 16 * 16))
    # glibc's loader puts addresses in place of offsets, musl's does not.
    strings, symbols, hashes = (
        value if value >= base else value + image.bias
        for value in (tags.get(tag, 0) for tag in (_STRTAB, _SYMTAB, _GNU_HASH))
    )
    for index in _chain(read, hashes, _hash(name)):
        name_at, _info, _other, section, value, _size = _unpack(read, symbols + 24 * index, "IBBHQQ")
        if section and value and exactly(read, strings + name_at, len(name) + 1) == name + b"\0":
            return value + image.bias
    raise NotElf


def _tags(data: bytes) -> dict[int, int]:
    tags = dict(struct.iter_unpack("<QQ", data))
    if not {_STRTAB, _SYMTAB, _GNU_HASH} <= tags.keys():
        raise NotElf
    return tags


def _hash(name: bytes) -> int:
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFF_FFFF
    return value


def _chain(read: Read, table: int, wanted: int) -> list[int]:
    """Return the indices of the symbols whose names have this hash."""
    buckets, first, bloom, _shift = _unpack(read, table, "IIII")
    if buckets == 0:
        raise NotElf
    buckets_at = table + 16 + 8 * bloom
    (index,) = _unpack(read, buckets_at + 4 * (wanted % buckets), "I")
    chain_at = buckets_at + 4 * buckets - 4 * first
    found = []
    for start in range(index, index + _LONGEST_CHAIN if index else index, _CHAIN_STEP):
        data = read(chain_at + 4 * start, 4 * _CHAIN_STEP)
        for offset, (value,) in enumerate(struct.iter_unpack("<I", data[: len(data) // 4 * 4])):
            if value | 1 == wanted | 1:
                found.append(start + offset)
            if value & 1:
                return found
        if len(data) < 4 * _CHAIN_STEP:
            break
    return found


def _unpack(read: Read, address: int, layout: str) -> tuple[int, ...]:
    return struct.unpack(f"<{layout}", exactly(read, address, struct.calcsize(f"<{layout}")))
