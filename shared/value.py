"""The base of everything that travels: frozen, and tolerant of fields that a newer neighbour adds."""

import base64
import binascii
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema


class Value(BaseModel):
    """A frozen model. Unknown fields are ignored, so that neighbouring versions understand each other."""

    model_config = ConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)


def narrow(numbers: Sequence[int]) -> "array[int]":
    """Return a column of the narrowest items that hold `numbers`. Raises OverflowError past 64 bits."""
    if numbers and numbers[0] >> 32:  # as times are: no need to look at them all
        return array("q", numbers)
    most = max(numbers, default=0)
    if most >> 32 or min(numbers, default=0) < 0:
        return array("q", numbers)
    return array("B" if most < 1 << 8 else "H" if most < 1 << 16 else "I", numbers)


def is_within(indices: Sequence[int], size: int) -> bool:
    """Do all `indices` point into a table of `size` rows?"""
    return not indices or (min(indices) >= 0 and max(indices) < size)


def whole(text: str) -> str:
    """Return `text` with `?` for each half character: those can be neither sent nor shown, and jobs can write them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _as_column(numbers: Any) -> "array[int]":
    if not isinstance(numbers, Iterable) or isinstance(numbers, str | bytes):
        raise ValueError("a column is a list of integers")
    try:
        return narrow(array("q", numbers))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a column holds 64-bit integers only: {error}") from error


if TYPE_CHECKING:
    Column = array[int]
else:  # array.array cannot be subscripted at run time before Python 3.12
    Column = Annotated[
        array,
        BeforeValidator(_as_column),
        PlainSerializer(lambda column: column.tolist(), return_type=list[int]),
        WithJsonSchema({"type": "array", "items": {"type": "integer"}}),
    ]
"""Many integers of one field: an array in memory, of items as narrow as they may be, a JSON list on the wire.

Bulk data is kept as columns because a model per record costs thirty times the memory and time.
"""


def _packed(column: "array[int]") -> str:
    wide = array("q", column)
    if sys.byteorder == "big":
        wide.byteswap()
    return base64.b64encode(wide.tobytes()).decode("ascii")


def _unpacked(given: Any) -> "array[int]":
    if isinstance(given, array):
        return given
    column = array("q")
    try:
        column.frombytes(base64.b64decode(given, validate=True))
    except (TypeError, ValueError, binascii.Error) as error:
        raise ValueError("a packed column is 64-bit integers in base64") from error
    if sys.byteorder == "big":
        column.byteswap()
    return column


if TYPE_CHECKING:
    PackedColumn = array[int]
else:
    PackedColumn = Annotated[
        array,
        BeforeValidator(_unpacked),
        PlainSerializer(_packed, return_type=str),
        WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
    ]
"""The same where it is long, of large numbers and sent by thousands: little-endian 64-bit integers in base64."""
