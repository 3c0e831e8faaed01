"""What dumps of ranks that run one program have in common: their entries are equal but for the times in them.

A skeleton is the entries of one dump with all times masked out. Where another's equal it under the mask, byte for byte,
its times lie where they lay in the first, and everything else that was read of the first holds for it too. Gaps, which
hold what could not be read as repeats, are masked whole: each dump's own are unpickled.
"""

import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TIME_BYTES = 8
_MOST_KEPT = 8
_MOST_SIZES = 1024
_MOST_BYTES = 8 * 1024 * 1024
"""Of one skeleton: tens of thousands of entries. It is kept twice, for as long as the process lives."""


@dataclass(frozen=True)
class Skeleton:
    """The entries of one dump without their times, and what was read of them."""

    size: int
    mask: int
    masked: int
    layout: struct.Struct
    """All times in the order of their bytes."""
    slots: tuple[Sequence[int], ...]
    """Of each column of times: which of them it holds, -1 where an entry has none."""
    sequences: list[bytes]
    pieces: list[bytes | slice]
    """What is left to unpickle: bytes that all have in common, and gaps."""

    def times(self, body: bytes) -> "tuple[array[int], ...]":
        """Return the columns of times of a dump whose entries are `body`; 0: not known."""
        found = (*self.layout.unpack(body), 0)  # which is what -1 points at
        return tuple(array("q", map(found.__getitem__, column)) for column in self.slots)

    def kept(self, body: bytes) -> bytes:
        """Return what is left to unpickle of `body`."""
        return b"".join(body[piece] if isinstance(piece, slice) else piece for piece in self.pieces)


class Skeletons:
    """The few that were met first, for as long as the process lives."""

    def __init__(self) -> None:
        self._kept: list[Skeleton] = []
        self._sizes: set[int] = set()

    def find(self, body: bytes) -> Skeleton | None:
        """Return the skeleton of `body`, where one is kept."""
        candidates = [skeleton for skeleton in self._kept if skeleton.size == len(body)]
        number = int.from_bytes(body, "little") if candidates else 0
        return next((one for one in candidates if number & one.mask == one.masked), None)

    def wants(self, body: bytes) -> bool:
        """Is it worth its while to make a skeleton of `body`? Not before a second dump of the same size."""
        if len(self._kept) >= _MOST_KEPT or len(body) > _MOST_BYTES:
            return False
        if len(body) in self._sizes:
            return True
        if len(self._sizes) < _MOST_SIZES:
            self._sizes.add(len(body))
        return False

    def keep(
        self,
        body: bytes,
        times: Sequence[tuple[int, ...]],
        durations: Sequence[int],
        sequences: list[bytes],
        pieces: list[bytes | slice],
    ) -> None:
        """Keep the skeleton of `body`, of whose entries `sequences` and `pieces` were read.

        `times` holds the positions of each entry's times, -1 for one that it lacks, `durations` those of durations.
        """
        ordered = sorted(place for entry in times for place in entry if place >= 0)
        index = {place: at for at, place in enumerate(ordered)} | {-1: -1}
        gaps = [piece for piece in pieces if isinstance(piece, slice)]
        mask = _mask([*(slice(place, place + TIME_BYTES) for place in (*ordered, *durations)), *gaps], len(body))
        self._kept.append(
            Skeleton(
                size=len(body),
                mask=mask,
                masked=int.from_bytes(body, "little") & mask,
                layout=struct.Struct("<" + "".join(_layout(ordered, len(body)))),
                slots=tuple(tuple(map(index.__getitem__, column)) for column in zip(*times, strict=True)),
                sequences=sequences,
                pieces=pieces,
            )
        )


def _mask(free: Sequence[slice], size: int) -> int:
    mask = bytearray(b"\xff" * size)
    for piece in free:
        mask[piece] = bytes(len(mask[piece]))
    return int.from_bytes(mask, "little")


def _layout(places: Sequence[int], size: int) -> Iterator[str]:
    """The format of eight-byte integers at `places` among `size` bytes."""
    at = 0
    for place in places:
        yield f"{place - at}xq"
        at = place + TIME_BYTES
    yield f"{size - at}x"
