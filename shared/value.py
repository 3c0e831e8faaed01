"""The base of everything that travels: frozen, and tolerant of fields that a newer neighbour adds."""

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema


class Value(BaseModel):
    """A frozen model. Unknown fields are ignored, so that neighbouring versions understand each other."""

    model_config = ConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)


def _as_column(numbers: Any) -> "array[int]":
    if isinstance(numbers, array) and numbers.typecode == "q":
        return numbers
    if not isinstance(numbers, Iterable) or isinstance(numbers, str | bytes):
        raise ValueError("a column is a list of integers")
    try:
        return array("q", numbers)
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
"""Many integers of one field: an `array("q")` in memory, a JSON list on the wire.

Bulk data is kept as columns because a model per record costs thirty times the memory and time.
"""
