"""Bodies of HTTP answers, made ready once, with places that get the time at which they are sent.

A gzipped body is not compressed anew for that: what stands in a place is a stored block of its own between compressed
ones (RFC 1951, 3.2.4), so it can be exchanged. The checksum follows by its linearity: exchanging some bytes for as
many others changes the CRC by that of their difference, times x to the number of bits behind it (as zlib combines
checksums in `crc32_combine`).
"""

import re
import struct
import zlib
from typing import NamedTuple

from tests.bench.simulated.nodes import IDLE_SECONDS
from tests.bench.simulated.processes import NOW_NS

LEVEL = 6

_MARKS = (str(NOW_NS).encode(), f"{IDLE_SECONDS:.3f}".encode())
_PLACES = re.compile(rb"(%s|(?<=[:\[,])%s(?=[,\]}]))" % (_MARKS[0], re.escape(_MARKS[1])))
_FOREIGN = b"\xff"
"""Fills a place while its surroundings are compressed. JSON of ours has no such byte, so nothing refers to it."""
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31
_ALL = 0xFFFFFFFF


class Stamps(NamedTuple):
    """What goes into the places: of the kind NOW_NS, and of the kind IDLE_SECONDS."""

    now: bytes
    idle: bytes

    @classmethod
    def at(cls, now_ns: int, stopped_ns: int) -> "Stamps":
        """The stamps of a moment; an idle time that three digits do not hold is told as 999.999 s."""
        idle = min(999.999, max(100.0, (now_ns - stopped_ns) / 1e9))
        return cls(b"%019d" % now_ns, b"%07.3f" % idle)


class Body:
    """A body that is compressed already."""

    def __init__(self, body: bytes) -> None:
        pieces = _PLACES.split(body)
        self._kinds = [_MARKS.index(piece) for piece in pieces[1::2]]
        first, *others = _deflated(pieces)
        self._chunks = [_HEADER + first, *others]
        self._crc = zlib.crc32(body)
        self._size = struct.pack("<I", len(body) & _ALL)
        self._weights = [0, 0]
        power = _ONE
        for at, piece in reversed(list(enumerate(pieces))):
            if at % 2 == 1:
                self._weights[_MARKS.index(piece)] ^= power
            power = _followed(power, len(piece))

    def at(self, stamps: Stamps) -> bytes:
        """The body with these stamps."""
        stored = [_stored(stamp) for stamp in stamps]
        crc = self._crc
        for weight, mark, stamp in zip(self._weights, _MARKS, stamps, strict=True):
            crc ^= _product(weight, zlib.crc32(mark) ^ zlib.crc32(stamp))
        chunks = [b""] * (2 * len(self._kinds) + 1)
        chunks[0::2] = self._chunks
        chunks[1::2] = [stored[kind] for kind in self._kinds]
        return b"".join((*chunks, struct.pack("<I", crc), self._size))


def plain(body: bytes) -> bytes:
    """Undo the compression."""
    return zlib.decompress(body, wbits=31)


def _deflated(pieces: list[bytes]) -> list[bytes]:
    """Compress what stands between the places; each chunk ends at a whole byte."""
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    chunks = []
    for at, piece in enumerate(pieces):
        flush = zlib.Z_FINISH if at == len(pieces) - 1 else zlib.Z_SYNC_FLUSH
        chunk = deflate.compress(piece if at % 2 == 0 else _FOREIGN * len(piece)) + deflate.flush(flush)
        if at % 2 == 0:
            chunks.append(chunk)
    return chunks


def _stored(data: bytes) -> bytes:
    return b"\x00" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data


def _product(a: int, b: int) -> int:
    """Multiply two polynomials modulo CRC-32's, bits reflected: the highest bit is x to the 0."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & _ALL
        b = b >> 1 ^ _POLYNOMIAL if b & 1 else b >> 1
    return product


def _followed(power: int, size: int) -> int:
    """Multiply by x to the number of bits in `size` bytes: what the checksum itself does at a byte of zeros."""
    return zlib.crc32(bytes(size), power ^ _ALL) ^ _ALL
