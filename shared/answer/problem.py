"""What a service of ours answers a client: the value asked for, or one problem document (RFC 9457)."""

from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError

from shared.errors import Unreachable, quoted
from shared.value import Value

M = TypeVar("M", bound=BaseModel)

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


def parse_answer(host: str, body: bytes, model: type[M]) -> M:
    """Return what `host` answered. Raises Unreachable where it is no such value."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise Unreachable(
            f"what {host} answers is not a {model.__name__}: {quoted(body)}",
            advice="is it an unhang collector of this version?",
        ) from error
