"""What tells the signatures of a dump apart before they are read: thousands of entries share a few."""

import marshal
from collections.abc import Iterable, Sequence
from typing import Any

from shared.formats.recorder.fields import MOST_TENSORS
from shared.formats.recorder.json_dump import Raw

_PLAIN = 2
"""The version of marshal's format in which equal values look alike: later ones note what is shared."""


def signature_key(values: Sequence[Any]) -> bytes:
    """Return a key of the fields of a signature that holds them all: of a pickle these may be endless."""
    return marshal.dumps([bytes(value) if isinstance(value, Raw) else value for value in values], _PLAIN)


def parts_of(values: Iterable[Any]) -> int:
    """Return how many numbers there are in shapes, or texts in lists."""
    lists = [raw for raw in values if isinstance(raw, (list, tuple)) and len(raw) <= MOST_TENSORS]
    return sum(map(len, lists)) + sum(len(part) for raw in lists for part in raw if type(part) in (list, tuple))
