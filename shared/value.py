"""The base of everything that travels: frozen, and tolerant of fields that a newer neighbour adds."""

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticSerializationError

_SEQUENCES = frozenset({"tuple", "list", "set", "frozenset"})
_NO_SCHEMA = frozenset({"metadata", "serialization", "default"})


def _fail_fast(schema: Any, *, within: bool = False) -> None:
    """Mark the sequences of a model's fields; those of the models `within` it are marked already."""
    if isinstance(schema, list | tuple):
        for part in schema:
            _fail_fast(part, within=within)
    elif isinstance(schema, dict):
        kind = schema.get("type")  # of a dict of fields: the field of that name
        is_model = kind == "model"
        if is_model and within:
            return
        if isinstance(kind, str) and kind in _SEQUENCES:
            schema["fail_fast"] = True
        for name, part in schema.items():
            if name not in _NO_SCHEMA:
                _fail_fast(part, within=within or is_model)


class Value(BaseModel):
    """A frozen model. Unknown fields are ignored, so that neighbouring versions understand each other."""

    model_config = ConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)
    all_fields: ClassVar[set[str]]

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.all_fields = set(cls.model_fields)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Give up at the first wrong item of a sequence: the complaints about a million would take a gigabyte."""
        schema = handler(source)
        _fail_fast(schema)
        return schema

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with `update`, which is not looked at: several times faster than pydantic's."""
        if deep:
            return super().model_copy(update=update, deep=True)
        return made(type(self), {**self.__dict__, **(update or {})})


_V = TypeVar("_V", bound=Value)
_Any = TypeVar("_Any")
_new = object.__new__
_set_fields, _set_names, _set_extra, _set_private = (
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


def made(model: type[_V], fields: dict[str, Any]) -> _V:
    """Return a `model` of all its `fields`, which are right: nothing is looked at. The dict becomes the value's own.

    All such values share the set of names that pydantic keeps for each: 2 KiB for a model of twenty fields.
    """
    value = _new(model)
    _set_fields(value, fields)
    _set_names(value, model.all_fields)
    _set_extra(value, None)
    _set_private(value, None)
    return value


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


def whole_texts(value: _Any) -> _Any:
    """Return a value in which all texts are whole, at any depth; it shares what needs no change."""
    match value:
        case str():
            return value if value.isascii() else type(value)(whole(value))
        case BaseModel():
            return value.model_copy(update={name: whole_texts(part) for name, part in value})
        case Mapping():
            return cast(_Any, {whole_texts(name): whole_texts(part) for name, part in value.items()})
        case tuple() | list() | set() | frozenset():
            parts = [whole_texts(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def as_json(value: BaseModel) -> str:
    """Return a value as JSON, also where texts in it are not whole, as names of files may be."""
    try:
        return value.model_dump_json()
    except PydanticSerializationError:
        return whole_texts(value).model_dump_json()


def _as_column(numbers: Any) -> "array[int]":
    if not isinstance(numbers, Iterable) or isinstance(numbers, str | bytes):
        raise ValueError("a column is a list of integers")
    try:
        return narrow(array("q", numbers))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"a column holds 64-bit integers only: {error}") from error


def _integral(given: Any) -> Any:
    return int(given) if isinstance(given, float) and given.is_integer() else given


JSON_INTEGER = BeforeValidator(_integral)
"""With `strict`, after all limits: an integer as JSON Schema has it. `2.0` is one, `"2"` and `true` are none."""

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


def packed(numbers: Iterable[int]) -> bytes:
    """Return 64-bit integers, little-endian."""
    wide = array("q", numbers)
    if sys.byteorder == "big":
        wide.byteswap()
    return wide.tobytes()


def unpacked(given: bytes) -> "array[int]":
    """Return what was packed. Raises ValueError on a part of a number."""
    column = array("q", given)
    if sys.byteorder == "big":
        column.byteswap()
    return column
