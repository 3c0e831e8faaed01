"""Many values of one model, field by field: what differs between them as columns, the rest as rows of a table.

Eight ranks of a node differ in a few numbers. Written this way, field names are not parsed once per rank, and a row
that other nodes send as well is parsed once.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, TypeVar

from shared.value import Value, is_within

_MOST_VALUES = 65_536
"""Of one kind, from one node: a value that takes a few characters on the wire takes a kilobyte in memory."""

_NOT_OWN = frozenset({"row", "owner"})

_C = TypeVar("_C", bound="Columns")
_T = TypeVar("_T")


class Columns(Value):
    """Fields of many values of a model. Where a column is left out, the shared rows hold the values."""

    of: ClassVar[type[Value]]
    without: ClassVar[Mapping[str, Any]] = {}
    """The value in a row of a field that has no default."""


@cache
def blank(kind: type[Columns]) -> dict[str, Any]:
    """Return the values in a row of the fields that are columns."""
    names = [name for name in kind.model_fields if name not in _NOT_OWN]
    fields = kind.of.model_fields
    return {
        name: kind.without[name] if name in kind.without else fields[name].get_default(call_default_factory=True)
        for name in names
    }


def columns_of(kind: type[_C], values: Sequence[Value | None], like: Sequence[Value | None] = (), **more: Any) -> _C:
    """Return the columns of `values`, without those that are equal for `like`, by default for rows.

    An entry that is not a value of the model (None, or the reason why there is none) is written as in a row.
    """
    columns: dict[str, Any] = {}
    for name, nothing in blank(kind).items():
        column = _column(kind, values, name, nothing)
        if column != (_column(kind, like, name, nothing) if like else (nothing,) * len(values)):
            columns[name] = column
    return kind(**columns, **more)


def _column(kind: type[Columns], values: Sequence[Value | None], name: str, nothing: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, name) if isinstance(value, kind.of) else nothing for value in values)


def fields_of(columns: Columns, rows: Sequence[Value]) -> list[dict[str, Any]]:
    """Return the fields of each value: its row's and its own. Raises ValueError where columns differ in length."""
    given = columns.__dict__
    if len(rows) > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES} values of a kind")
    values = [row.__dict__.copy() for row in rows]
    for name in blank(type(columns)):
        column = given[name]
        if column:
            if len(column) != len(values):
                raise ValueError(f"the column {name} differs in length from the others")
            for value, own in zip(values, column, strict=True):
                value[name] = own
    return values


def pick(table: Sequence[_T], indices: Sequence[int]) -> list[_T]:
    """Return the rows at `indices`. Raises ValueError on an index outside it."""
    if not is_within(indices, len(table)):
        raise ValueError("an index is outside its table")
    return [table[index] for index in indices]


def by_owner(owners: Sequence[int], values: Sequence[_T], count: int) -> list[tuple[_T, ...]]:
    """Return what belongs to each of `count` owners. Raises ValueError where a value has no such owner."""
    if len(owners) != len(values) or not is_within(owners, count):
        raise ValueError("a value has no owner")
    owned: list[list[_T]] = [[] for _ in range(count)]
    for owner, value in zip(owners, values, strict=True):
        owned[owner].append(value)
    return [tuple(some) for some in owned]
