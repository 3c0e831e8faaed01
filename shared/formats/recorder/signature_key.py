"""What tells the signatures of a dump apart before they are read: thousands of entries share a few."""

import marshal
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from shared.formats.recorder.fields import MOST_DIMENSIONS, MOST_TENSORS
from shared.formats.recorder.json_dump import Raw

_PLAIN = 2
"""The version of marshal's format in which equal values look alike: later ones note what is shared."""

_NUMBERS = {int}
_ODD: Hashable = object()


def signature_key(values: Sequence[Any], *, is_tree: bool) -> Hashable | None:
    """Return a key of the fields of a signature; None where only reading them tells.

    `is_tree`: no value is there twice. A small pickle may hold a list of lists of lists that is endless when written
    out or hashed, so of a pickle's values nothing deeper is looked at than shapes are.
    """
    if is_tree:
        return plain_key([bytes(value) if isinstance(value, Raw) else value for value in values])
    parts = tuple(map(_part, values))
    return None if _ODD in parts else parts


def plain_key(values: list[Any] | tuple[Any, ...]) -> bytes:
    """Return a key of plain values that holds them all: of a pickle, only of what is known not to be endless."""
    return marshal.dumps(values, _PLAIN)


def _part(value: Any) -> Hashable:
    """Return a text, or a list of texts, numbers or lists of numbers; _ODD for anything else."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list | tuple) or len(value) > MOST_TENSORS:
        return _ODD
    found: list[Hashable] = []
    for each in value:
        if type(each) is list or type(each) is tuple:
            if len(each) > MOST_DIMENSIONS or not _NUMBERS.issuperset(map(type, each)):
                return _ODD
            found.append(tuple(each))
        elif type(each) is str or type(each) is int:
            found.append(each)
        else:
            return _ODD
    return tuple(found)


def parts_of(values: Iterable[Any]) -> int:
    """Return how many numbers there are in shapes, or texts in lists."""
    count = 0
    for raw in values:
        if isinstance(raw, (list, tuple)) and len(raw) <= MOST_TENSORS:
            count += len(raw)
            for part in raw:
                if type(part) is list or type(part) is tuple:
                    count += len(part)
    return count
