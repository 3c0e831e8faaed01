"""A record as it is put together from memory: one entry of each kind, and what tells the others of it apart."""

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple


class Kinds(NamedTuple):
    """What tells records apart that one entry of a dump describes."""

    order: Sequence[int]
    """Of each record, the index of its entry."""
    numbers: Sequence["array[int]"]
    """Its sequences, op ids and times as columns of 64 bits, in the order in which dump.py reads them."""

    def unfold(self, items: Sequence[Any]) -> tuple[Sequence[Any], Sequence[int]]:
        """Return the entries, and for each record the index of the entry that describes it."""
        return items, self.order

    def weave(self, _own: Sequence[tuple[int, ...]], _order: Sequence[int]) -> Sequence["array[int]"]:
        """Return the sequences, op ids and times of all records."""
        return self.numbers
