"""How an agent registers: what it sends to the collector, and the answer."""

from typing import Annotated, Literal

from pydantic import Field

from shared.value import JSON_INTEGER, Value
from shared.wire.digest import NodeDigest


class Registration(Value):
    """Where the agent can be reached. Without a URL: at the address from which it registers."""

    url: str | None = Field(
        default=None, max_length=300, description="Its base URL, if it cannot be reached at the sender's address."
    )
    scheme: Literal["http", "https"] = "http"
    port: Annotated[int, Field(strict=True, ge=1, le=65_535), JSON_INTEGER] = 8471
    digest: NodeDigest | None = Field(
        default=None, description="How far its ranks are, if the collector has asked for that in its last answer."
    )


class Lease(Value):
    """The agent is registered for this long."""

    host: str
    url: str = Field(description="Where the collector will ask the agent.")
    lease_seconds: float = Field(description="An agent that does not register again within this time counts as lost.")
    digest_seconds: float | None = Field(
        default=None,
        description="How often the collector wants to know how far the agent's ranks are; None: it does not.",
    )
