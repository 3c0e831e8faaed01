"""Silence as a value: what could not be read, from which source, and why."""

from enum import StrEnum

from pydantic import Field

from shared.value import Value


class Reason(StrEnum):
    """Why a source gave nothing."""

    NOT_ENABLED = "not_enabled"
    """Not enabled by the job or the request."""
    NOT_PERMITTED = "not_permitted"
    NOT_FOUND = "not_found"
    GONE = "gone"
    """It exited during the look."""
    TIMED_OUT = "timed_out"
    UNREADABLE = "unreadable"
    """Its answer could not be parsed."""
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    """It was not safe to look, or a limit of unhang was reached."""
    FAILED = "failed"
    """A part of unhang failed at it: a fault of unhang, to be reported."""


class Missing(Value):
    """One thing that could not be read. Silence is evidence: it is carried to the verdict, never dropped."""

    source: str = Field(description="A source of the agent, a file, or an agent's address.")
    reason: Reason
    detail: str = Field(default="", description="One sentence for a person, with what to do, if known.")


def refused(source: str, detail: str) -> Missing:
    """What a file or part is where it is not safe to read it, or more than is read."""
    return Missing(source=source, reason=Reason.REFUSED, detail=detail)


def unreadable(source: str, detail: str) -> Missing:
    """What a file or part is of which nothing could be made."""
    return Missing(source=source, reason=Reason.UNREADABLE, detail=detail)


WAITING_LAUNCHERS = "launchers"
"""The `source` of what an agent reports about launchers that have started no rank yet."""
