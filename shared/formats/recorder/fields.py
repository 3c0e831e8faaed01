"""The fields of one entry of a flight-recorder dump, from arbitrary input to plain values.

Every function raises UnreadableDump for what cannot be the field, and reads no more of it than its bounds.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from shared.errors import UnreadableDump, quoted
from shared.rank_sets import MOST_RANKS, fold
from shared.value import whole
from shared.wire.trace import State

MOST_RECORDS = 1_000_000
MOST_TENSORS = 65_536
MOST_DIMENSIONS = 64
MOST_TEXT = 512
_LEAST, _LARGEST = -(2**63), 2**63 - 1
_MOST_REMEMBERED = 65_536
"""Characters of a list of members that is kept for the next dump."""


def parse_state(entry: Mapping[str, Any], backend: str) -> State:
    """Read how far an operation has got, by the conventions of its backend.

    torchcomms retires what has ended under any name of a backend, with how long it took; NCCL, what it gave up.
    """
    said = entry.get("state")
    retired = entry.get("retired") is True and (backend == "gloo" or entry.get("duration_ms") is not None)
    if said == "completed" or retired:
        return State.COMPLETED
    return State.STARTED if said == "started" else State.ISSUED


def parse_members(raw: Any) -> tuple[str | None, tuple[int, ...] | None]:
    """Read `"[0, 1, 2, 3]"`, a list written as a string: the folded ranks, and their order where it is not ascending.

    `"[]"` means that the dump does not say; then there are neither. Before version 2.0 it is a real list.
    """
    if isinstance(raw, list | tuple):
        raw = ",".join(str(parse_number(rank)) for rank in parse_sequence(raw, most=MOST_RANKS))
    if not isinstance(raw, str) or len(raw) >= 16 * MOST_RANKS:
        return None, None
    return _members_once(raw) if len(raw) < _MOST_REMEMBERED else _members(raw)


def _members(raw: str) -> tuple[str | None, tuple[int, ...] | None]:
    order = tuple(dict.fromkeys(int(number) for number in re.findall(r"[0-9]{1,7}", raw)))
    shuffled = list(order) != sorted(order)
    return fold(order) or None, order if shuffled else None


_members_once = lru_cache(maxsize=256)(_members)
"""Thousands of ranks write the same long list of the world."""


def parse_mark(raw: Any) -> int | None:
    """Read a sequence number of the status; None where there is none yet."""
    number = parse_number(raw, unset=-1)
    return None if number < 0 else number


def parse_number(raw: Any, *, unset: int = 0) -> int:
    """Read a number of 64 bits that may be an int, a decimal string, None or missing."""
    if raw is None:
        return unset
    if type(raw) is int and _LEAST <= raw <= _LARGEST:
        return raw  # as nearly all of them are
    try:
        number = int(raw) if isinstance(raw, int | str) and len(str(raw)) <= 20 else None
    except ValueError:
        number = None
    if number is None or not _LEAST <= number <= _LARGEST:
        shown = quoted(repr(raw)[:80]) if isinstance(raw, str | int | float) else type(raw).__name__
        raise UnreadableDump(f"{shown} instead of a number")
    return number


def at_least_zero(column: Sequence[int]) -> Sequence[int]:
    """Sequences and times, of which none is negative: where a foreign file says so, it is not known, which is 0."""
    return column if min(column, default=0) >= 0 else [max(0, number) for number in column]


def parse_created(entry: Mapping[str, Any]) -> int:
    """Read when an operation was issued, in nanoseconds. PyTorch 2.2 wrote microseconds."""
    microseconds = entry.get("time_created_us")
    return parse_number(entry.get("time_created_ns") if microseconds is None else 1000 * parse_number(microseconds))


def parse_collective(entry: Mapping[str, Any]) -> int:
    """Read which collective of its group it is. PyTorch 2.2 had one sequence for all operations."""
    number = entry.get("collective_seq_id")
    return parse_number(entry.get("seq_id") if number is None else number)


def parse_text(raw: Any) -> str:
    """Read a text, cut to its bound; a number counts as one, anything else is empty."""
    return whole(raw[:MOST_TEXT]) if isinstance(raw, str) else str(raw)[:MOST_TEXT] if isinstance(raw, int) else ""


def parse_texts(raw: Any) -> tuple[str, ...]:
    """Read one text per tensor; for a single tensor it may be a plain text."""
    if isinstance(raw, str):
        return (parse_text(raw),) if raw else ()
    return tuple(parse_text(item) for item in parse_sequence(raw, most=MOST_TENSORS))


def parse_sizes(raw: Any) -> tuple[tuple[int, ...], ...]:
    """Read one shape per tensor."""
    return tuple(
        tuple(parse_number(size) for size in parse_sequence(sizes, most=MOST_DIMENSIONS))
        for sizes in parse_sequence(raw, most=MOST_TENSORS)
    )


def parse_sequence(raw: Any, *, most: int) -> list[Any] | tuple[Any, ...]:
    """Read a list of at most `most` items; None is empty."""
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple) or len(raw) > most:
        raise UnreadableDump(f"{type(raw).__name__} instead of a list of at most {most}")
    return raw


def parse_mapping(raw: Any) -> Mapping[str, Any]:
    """Read a mapping; None is empty."""
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise UnreadableDump(f"{type(raw).__name__} instead of a mapping")
    return raw
