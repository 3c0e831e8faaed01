"""One request to a receiver, ready to be sent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outgoing:
    """What is posted. Its URL and headers may hold secrets, and are shown nowhere."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What is struck out of what the receiver answers."""
    expected: bytes | None = None
    """The body that means success; None: any, with a status from 200 to 299."""


def json_bytes(value: object) -> bytes:
    """Return JSON in ASCII: no service stumbles over how text is encoded."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
