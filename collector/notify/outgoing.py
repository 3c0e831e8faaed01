"""One request to a receiver, ready to be sent, and what its answer means."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared.errors import Unreachable


class NotDelivered(Unreachable):
    """A receiver did not take a message.

    `retry_after`: how long it wants to be left alone; `is_final`: it wants no more.
    """

    def __init__(self, why: str, *, retry_after: float | None = None, is_final: bool = False) -> None:
        super().__init__(why)
        self.retry_after = retry_after
        self.is_final = is_final


def taken(_: bytes) -> str:
    """Any answer with a status from 200 to 299 will do, and names nothing."""
    return ""


@dataclass(frozen=True)
class Outgoing:
    """What is posted. Its URL and headers may hold secrets, and are shown nowhere."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What is struck out of what the receiver answers."""
    read_answer: Callable[[bytes], str] = taken
    """Of a body with a status from 200 to 299: what the receiver calls the message. Raises NotDelivered."""


def json_bytes(value: object) -> bytes:
    """Return JSON in ASCII: no service stumbles over how text is encoded."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
