"""What Python's own picklers write beside values, and PyTorch's does not: where the memo keeps each container.

Protocols 2 and 3 write the place (BINPUT, LONG_BINPUT): entries that are equal differ in places that nobody asks for.
Protocols 4 and 5 count (MEMOIZE): to take an entry out would move the places of all that comes after it.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence

from shared.formats.recorder.safe_pickle import FRAME, FRAME_BYTES, MEMOIZE, PUTS, other_opcodes

KEPT = rb"(?:\x94|q.|r.{4})?+"
"""MEMOIZE, BINPUT or LONG_BINPUT after a container; nothing, as PyTorch's pickler has it."""


class OddPlaces(Exception):
    """Places are written as well as counted: no pickler does."""


class EqualButForPlaces:
    """Tells entries apart by their opcodes, but for the places where the memo keeps what is in them."""

    def __init__(self) -> None:
        self._masks: dict[int, list[int]] = {}
        """By length: which bytes of an entry are no place, for each of the ways in which such entries are laid out."""
        self._known: set[tuple[int, int]] = set()

    def key(self, kind: Sequence[bytes | None]) -> tuple[int, int]:
        """Return a key of opcodes that have neither texts nor frames among them. Raises OddPlaces for others.

        What equals a known entry wherever that has no places has the same opcodes, and thus its places there, too.
        """
        opcodes = b"".join([piece or b"" for piece in kind])
        number = int.from_bytes(opcodes, "little")
        masks = self._masks.setdefault(len(opcodes), [])
        for mask in masks:
            if (key := (mask, number & mask)) in self._known:
                return key
        mask = _mask(opcodes)
        if mask not in masks:
            masks.append(mask)
        self._known.add(key := (mask, number & mask))
        return key


def _mask(opcodes: bytes) -> int:
    mask = bytearray(b"\xff" * len(opcodes) + b"\1")  # ends with a bit that no shorter one has
    for at in other_opcodes(opcodes):
        size = PUTS.get(opcodes[at])
        if size is None:
            raise OddPlaces
        mask[at + 1 : at + size] = bytes(size - 1)
    return int.from_bytes(mask, "little")


def with_places(pieces: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Write the place wherever MEMOIZE would count, so that nothing moves, and leave frames out.

    `pieces`: what is before each entry, and the entry, if it is the first of its kind, or BININT with its kind.
    Raises OddPlaces where places are written as well.
    """
    taken = 0
    of_kinds: list[int] = []
    for before, entry in pieces:
        between, count = _with_places(before, taken)
        taken += count
        if entry[:1] == b"}":
            entry, count = _with_places(entry, taken)
            of_kinds.append(count)
            taken += count
        elif entry:
            taken += of_kinds[int.from_bytes(entry[1:], "little")]
        yield between + entry


def _with_places(opcodes: bytes, taken: int) -> tuple[bytes, int]:
    """Return the opcodes, and how many places they take after those that are taken."""
    pieces: list[bytes] = []
    begin = count = 0
    for at in other_opcodes(opcodes):
        opcode = opcodes[at]
        if opcode in PUTS:
            raise OddPlaces
        if opcode == MEMOIZE:
            pieces += (opcodes[begin:at], b"r", struct.pack("<I", taken + count))
            begin = at + 1
            count += 1
        elif opcode == FRAME:
            pieces.append(opcodes[begin:at])
            begin = at + FRAME_BYTES
    return b"".join([*pieces, opcodes[begin:]]), count
