"""How an agent makes itself known: what it sends to the collector, and what it gets."""

from typing import Annotated, Literal

from pydantic import Field

from shared.value import JSON_INTEGER, Value


class Registration(Value):
    """Where an agent may be asked. Without a URL it is at the address from which this comes."""

    url: str | None = Field(
        default=None, max_length=300, description="Its base URL, where the sender's address will not do."
    )
    scheme: Literal["http", "https"] = "http"
    port: Annotated[int, Field(strict=True, ge=1, le=65_535), JSON_INTEGER] = 8471


class Lease(Value):
    """The collector knows the agent, for so long."""

    host: str
    url: str = Field(description="Where the agent will be asked.")
    lease_seconds: float = Field(description="An agent that does not register again within this time counts as lost.")
