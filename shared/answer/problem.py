"""One problem document (RFC 9457): how our services write and recognise it."""

from pydantic import Field, ValidationError

from shared.value import Value

URN = "urn:unhang:problem:"
"""Prefix of the types of our own problems."""


class Problem(Value):
    """What went wrong, for a program (`type`, `status`) and for a person (`title`, `detail`, `advice`)."""

    type: str = Field(description="Which problem it is; stable.", examples=["urn:unhang:problem:not-found"])
    title: str = Field(description="Equal for every problem of this type.", examples=["Not Found"])
    status: int = Field(description="The HTTP status, repeated.", examples=[404])
    detail: str = Field(default="", description="What went wrong this time.", examples=["no rank has the pid 4711"])
    advice: str = Field(default="", description="What to do, if known.")
    instance: str = Field(default="", description="The requested path.")


def detail_of(body: bytes) -> str:
    """Return the detail of a problem of our own services; empty for any other text."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        return ""
    return problem.detail if problem.type.startswith(URN) else ""
