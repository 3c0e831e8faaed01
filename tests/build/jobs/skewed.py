"""Snapshots as they would be had one node's clock been off all the time."""

from array import array
from collections.abc import Sequence
from typing import Any

from shared.wire.snapshot import NodeSnapshot

_NANOSECONDS = frozenset(
    {"taken_at_ns", "looked_at_ns", "at_ns", "asked_at_ns", "created_ns", "started_ns", "completed_ns"}
)
_SECONDS = frozenset({"started_at", "modified_at", "at", "last_at"})


def skewed(snapshots: Sequence[NodeSnapshot], host: str, seconds: int) -> list[NodeSnapshot]:
    """Move every time that `host` tells by so many seconds."""
    return [
        NodeSnapshot.model_validate(_moved(snapshot.model_dump(), seconds)) if snapshot.host == host else snapshot
        for snapshot in snapshots
    ]


def _moved(value: Any, seconds: int) -> Any:
    if isinstance(value, dict):
        return {key: _at(key, each, seconds) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(each, seconds) for each in value)
    return value


def _at(key: str, value: Any, seconds: int) -> Any:
    if key in _NANOSECONDS and value is not None:
        return _later(value, seconds * 1_000_000_000)
    if key in _SECONDS and isinstance(value, int | float):
        return value + seconds
    return _moved(value, seconds)


def _later(times: Any, by_ns: int) -> Any:
    """Where a time is 0 there is none."""
    if isinstance(times, array | list | tuple):
        return [time + by_ns if time else 0 for time in times]
    return times + by_ns if times else times
