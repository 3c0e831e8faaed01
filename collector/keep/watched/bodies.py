"""Values as the store keeps them: JSON in a row, times as milliseconds of its clock."""

from datetime import UTC, datetime
from typing import TypeVar

from pydantic import ValidationError

from shared.errors import InvalidSettings
from shared.value import Value

V = TypeVar("V", bound=Value)


def time_of(ms: int) -> str:
    """Write a time of the store's clock as answers have it."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ms_of(time: str) -> int:
    """Return what `time_of` wrote."""
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def json_of(value: Value) -> str:
    """Return JSON as every database takes it: NUL stands in it as an escape, which PostgreSQL's text accepts."""
    return value.model_dump_json(by_alias=True)


def read_stored(body: str, kind: type[V]) -> V:
    """Return what a row holds. Raises InvalidSettings where the store is damaged."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise InvalidSettings(f"the store is damaged: an {kind.__name__} in it cannot be read") from error
