"""What PyTorch's hook records of a backend that has no recorder of its own, as `nccl` since 2.15 has not.

Source: FlightRecorderHook.hpp. The hook learns of ends alone, and notes each as a start, too. It numbers the operations
of a group from zero, sends and receives among them, and its statuses are such numbers. Each backend has a dump.
"""

from array import array
from collections.abc import Collection, Mapping

from shared.wire.trace import Mark

_HOOKED = ("nccl2:", "nccl-lazy:")


def is_hooked(profiling_name: str) -> bool:
    """Did the hook record this operation?"""
    return profiling_name.startswith(_HOOKED)


def as_recorded_natively(columns: "Mapping[str, array[int]]") -> "dict[str, array[int]]":
    """Return columns whose operations are numbered from one, and do not tell when they were started."""
    numbers = array("q", (number + 1 for number in columns["op_id"]))
    return {**columns, "started_ns": array("q", bytes(8 * len(numbers))), "op_id": numbers}


def counted(last: int | None, *, with_pairs: bool) -> int | None:
    """Return the number of a collective, given that of a status; None: the group has sends and receives, too."""
    return None if with_pairs or last is None else last + 1


def marks_by_collectives(marks: Collection[Mark], columns: "Mapping[str, array[int]]") -> tuple[Mark, ...]:
    """Return marks that the hook has written as those of other recorders are."""
    paired = {group for group, number in zip(columns["group"], columns["p2p_seq"], strict=True) if number}
    return tuple(
        Mark(
            group=mark.group,
            issued=counted(mark.issued, with_pairs=mark.group in paired),
            completed=counted(mark.completed, with_pairs=mark.group in paired),
        )
        for mark in marks
    )
