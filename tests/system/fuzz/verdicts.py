"""What must hold whatever went in: our errors or a value, in bounded time, that can travel and be shown."""

import time
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from shared.errors import UnhangError

MOST_SECONDS = 5.0
"""Of a core, for one input of at most 200,000 bytes, on a slow machine. Most take under a millisecond."""

MOST_BYTES = 32 * 1024 * 1024
"""Of the value that comes out, as JSON."""


def hold(parse: Callable[[bytes], Any], data: bytes) -> Any:
    """Parse `data`, check what comes of it, and return it; None where it was refused."""
    begun = time.thread_time()
    try:
        value = parse(data)
    except UnhangError as error:
        check_text(str(error))
        return None
    finally:
        assert time.thread_time() - begun < MOST_SECONDS, "took too long"
    check_value(value)
    return value


def check_value(value: Any) -> None:
    """It can travel: models become JSON and come back as they were."""
    if isinstance(value, BaseModel):
        wire = value.model_dump_json()
        assert len(wire) < MOST_BYTES
        assert type(value).model_validate_json(wire).model_dump_json() == wire
    elif isinstance(value, tuple | list):
        for part in value[:1000]:
            check_value(part)


def check_text(text: str) -> None:
    """It can be shown to a person: encodable, and no longer than a screen."""
    assert len(text) < 20_000
    assert not any(0xD800 <= ord(char) < 0xE000 for char in text), text[:300]


def check_shown(text: str) -> None:
    """It can be printed on a terminal: nothing in it steers one."""
    text.encode("utf-8")
    assert all(char.isprintable() or char == "\n" for char in text), text[:300]
