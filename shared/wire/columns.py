"""Many values of one model, told field by field: what each has to itself as columns, the rest as rows of a table.

Eight ranks of a node differ in a few numbers. Said so, the names of the fields are not read for each of them, and a
row that other nodes tell as well is not read again.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, TypeVar

from shared.value import Value, is_within

_MOST_VALUES = 65_536
"""Of one kind that a node may tell of: few characters claim a value, which takes a kilobyte."""

_NOT_OWN = frozenset({"row", "owner"})

_C = TypeVar("_C", bound="Columns")
_T = TypeVar("_T")


class Columns(Value):
    """Fields of many values of a model. A column that is left out: as in the rows that the values share."""

    of: ClassVar[type[Value]]
    without: ClassVar[Mapping[str, Any]] = {}
    """What stands in a row for a field that has no default."""


@cache
def blank(kind: type[Columns]) -> dict[str, Any]:
    """Return what stands in a row for the fields that are columns."""
    names = [name for name in kind.model_fields if name not in _NOT_OWN]
    fields = kind.of.model_fields
    return {
        name: kind.without[name] if name in kind.without else fields[name].get_default(call_default_factory=True)
        for name in names
    }


def tell(kind: type[_C], values: Sequence[Value | None], like: Sequence[Value | None] = (), **more: Any) -> _C:
    """Return the columns of `values`, without those that tell the same of `like`, by default of rows.

    What is no value of the model, but None or why there is none, is told as a row would tell it.
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
    """Return the fields of each value: those of its row, and its own. Raises ValueError on columns of other lengths."""
    told = columns.__dict__
    if len(rows) > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES} values of a kind")
    values = [row.__dict__.copy() for row in rows]
    for name in blank(type(columns)):
        column = told[name]
        if column:
            if len(column) != len(values):
                raise ValueError(f"the column {name} differs in length from the others")
            for value, own in zip(values, column, strict=True):
                value[name] = own
    return values


def pick(table: Sequence[_T], indices: Sequence[int]) -> list[_T]:
    """Return the rows at `indices`. Raises ValueError on one beside the table."""
    if not is_within(indices, len(table)):
        raise ValueError("an index is outside its table")
    return [table[index] for index in indices]


def by_owner(owners: Sequence[int], values: Sequence[_T], count: int) -> list[tuple[_T, ...]]:
    """Return what belongs to each of `count` owners. Raises ValueError where an owner is none of them, or left out."""
    if len(owners) != len(values) or not is_within(owners, count):
        raise ValueError("a value has no owner")
    owned: list[list[_T]] = [[] for _ in range(count)]
    for owner, value in zip(owners, values, strict=True):
        owned[owner].append(value)
    return [tuple(some) for some in owned]
