"""The members of a tar archive, one after the other, in bounded memory and without recursion.

`tarfile` keeps every member, reads a header of any size whole, and calls itself for each of a chain of headers. Only
what gives a member's name and size is read here: the format of POSIX (ustar, pax) and GNU's long names.
"""

import re
import tarfile
from collections.abc import Iterator
from typing import NamedTuple

from collector.files.tree.bounded_file import ByteSource, FileTooLarge

_BLOCK = 512
_LARGEST_HEADER = 1024 * 1024
"""Longest record of a name: paths have at most 4 KiB."""
_MOST_CHAINED = 16
_LONG_NAME, _LONG_LINK, _PAX, _PAX_ALL, _SPARSE = b"L", b"K", b"x", b"g", b"S"
_SPARSE_GOES_ON, _SPARSE_GOES_ON_THERE = 482, 504
# 30 path=dumps/nccl_trace_rank_3\n        18 size=123456789\n        22 GNU.sparse.major=1\n
_PAX_RECORD = re.compile(rb"(\d{1,7}) ([^=\n]{1,64})=")
_SIZE = re.compile(rb"\d{1,19}")


class Member(NamedTuple):
    """One member; its content is what is read next."""

    name: str
    size: int
    is_file: bool
    is_directory: bool
    written_ns: int
    """Unix nanoseconds; 0: it does not say."""


class BrokenTar(ValueError):
    """What is read is no tar archive, or it ends early."""


def members_of(archive: ByteSource) -> Iterator[Member]:
    """Yield each member while the archive is at its content. Raises BrokenTar and TooLarge."""
    while True:
        found = _next_member(archive)
        if found is None:
            return
        member, end = found
        yield member
        if archive.seek(end) < end:
            raise BrokenTar("it ends early")


def _next_member(archive: ByteSource) -> tuple[Member, int] | None:
    told: dict[bytes, bytes] = {}
    for _ in range(_MOST_CHAINED):
        info = _header(archive)
        if info is None:
            return None
        size = _size(told[b"size"]) if b"size" in told else info.size
        if info.type in (_LONG_NAME, _PAX):
            told |= _told(info, archive)
        elif info.type in (_LONG_LINK, _PAX_ALL):
            archive.seek(archive.tell() + _padded(info.size))
        else:
            is_sparse = info.type == _SPARSE or any(name.startswith(b"GNU.sparse") for name in told)
            if info.type == _SPARSE:
                _pass_over_map(archive, info)
            name = told.get(b"path", info.name.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")
            member = Member(name, size, info.isreg() and not is_sparse, info.isdir(), int(info.mtime * 1e9))
            return member, archive.tell() + (_padded(size) if info.isreg() or is_sparse else 0)
    raise FileTooLarge(f"more than {_MOST_CHAINED} headers are chained before one member")


class _Header(tarfile.TarInfo):
    """A header as it is in the archive, with its raw block."""

    block: bytes


def _header(archive: ByteSource) -> _Header | None:
    """Read a header; None at the end of the archive."""
    block = archive.read(_BLOCK)
    if not block.strip(b"\0"):
        return None
    try:
        info = _Header.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise BrokenTar(str(error)) from error
    if info.size < 0:
        raise BrokenTar("a member of negative size")
    info.block = block
    return info


def _told(info: _Header, archive: ByteSource) -> dict[bytes, bytes]:
    """Read what a header says about the next one."""
    if info.size > _LARGEST_HEADER:
        raise FileTooLarge(f"a header of {info.size} bytes; at most {_LARGEST_HEADER} are read")
    data = archive.read(_padded(info.size))[: info.size]
    if info.type == _LONG_NAME:
        return {b"path": data.split(b"\0", 1)[0]}
    told: dict[bytes, bytes] = {}
    at = 0
    while (record := _PAX_RECORD.match(data, at)) is not None:
        length = int(record[1])
        if length <= len(record[0]):
            raise BrokenTar("a record of a pax header has no length")
        told[record[2]] = data[record.end() : at + length - 1]
        at += length
    return told


def _size(told: bytes) -> int:
    """Read a size from a pax header. Python refuses to read 4,300 digits and more, which is no BrokenTar."""
    if _SIZE.fullmatch(told) is None:
        raise BrokenTar("a pax header tells a size that is no number of bytes")
    return int(told)


def _pass_over_map(archive: ByteSource, info: _Header) -> None:
    """GNU's old sparse files go on in further blocks, each of which says whether there is another."""
    goes_on = info.block[_SPARSE_GOES_ON]
    while goes_on:
        block = archive.read(_BLOCK)
        if len(block) < _BLOCK:
            raise BrokenTar("it ends early")
        goes_on = block[_SPARSE_GOES_ON_THERE]


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
