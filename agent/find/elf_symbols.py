"""Finds where a loaded program or library keeps a variable, from the ELF tables in the memory of its process.

Nothing is read from files: those of a container may not be where its memory map says, may have been replaced
since, or may lie on layers that number them differently. The memory is the inspected process's own and may be
made up to waste our time, so every table and every chain is bounded. 64-bit little-endian machines only.

Formats: elf(5); the hash table that linkers write since 2006: https://flapenguin.me/elf-dt-gnu-hash
"""

import struct
from collections.abc import Callable

Read = Callable[[int, int], bytes]
"""(address, size) -> bytes; fewer where the memory ends."""

_MOST_HEADERS = 64
_MOST_TAGS = 512
_LONGEST_CHAIN = 4096
_CHAIN_STEP = 64
_PAGE = 4096

_LOAD, _DYNAMIC = 1, 2
_STRTAB, _SYMTAB, _GNU_HASH = 5, 6, 0x6FFF_FEF5


class _NotFound(Exception):
    """The tables end, contradict themselves, or hold no such symbol."""


def find_variable(read: Read, base: int, name: bytes) -> int | None:
    """Return the address of the variable `name` that the file loaded at `base` defines; None if it does not."""
    try:
        return _find(read, base, name)
    except _NotFound:
        return None


def _find(read: Read, base: int, name: bytes) -> int:
    bias, dynamic, size = _program(read, base)
    tags = _tags(_exactly(read, dynamic, min(size, 16 * _MOST_TAGS) // 16 * 16))
    # glibc's loader puts addresses in place of offsets, musl's does not.
    strings, symbols, hashes = (
        value if value >= base else value + bias
        for value in (tags.get(tag, 0) for tag in (_STRTAB, _SYMTAB, _GNU_HASH))
    )
    for index in _chain(read, hashes, _hash(name)):
        name_at, _info, _other, section, value, _size = _unpack(read, symbols + 24 * index, "IBBHQQ")
        if section and value and _exactly(read, strings + name_at, len(name) + 1) == name + b"\0":
            return value + bias
    raise _NotFound


def _program(read: Read, base: int) -> tuple[int, int, int]:
    """Return by how much addresses are shifted, and where the dynamic section lies and how large it is."""
    magic, headers_at, header_size, count = _header(_exactly(read, base, 64))
    if magic != b"\x7fELF\x02\x01" or header_size != 56 or not 0 < count <= _MOST_HEADERS:
        raise _NotFound
    table = _exactly(read, base + headers_at, 56 * count)
    headers = [(h[0], h[3], h[6]) for h in struct.iter_unpack("<IIQQQQQQ", table)]
    starts = [address for kind, address, _ in headers if kind == _LOAD]
    found = [(address, size) for kind, address, size in headers if kind == _DYNAMIC]
    if not starts or not found:
        raise _NotFound
    bias = base - min(starts) // _PAGE * _PAGE
    return bias, found[0][0] + bias, found[0][1]


def _header(data: bytes) -> tuple[bytes, int, int, int]:
    (headers_at,) = struct.unpack_from("<Q", data, 32)
    header_size, count = struct.unpack_from("<HH", data, 54)
    return data[:6], headers_at, header_size, count


def _tags(data: bytes) -> dict[int, int]:
    tags = dict(struct.iter_unpack("<QQ", data))
    if not {_STRTAB, _SYMTAB, _GNU_HASH} <= tags.keys():
        raise _NotFound
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
        raise _NotFound
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
    return struct.unpack(f"<{layout}", _exactly(read, address, struct.calcsize(f"<{layout}")))


def _exactly(read: Read, address: int, size: int) -> bytes:
    data = read(address, size)
    if len(data) != size:
        raise _NotFound
    return data
