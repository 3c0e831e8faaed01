"""Silence as a value: what could not be seen, from which source, and why."""

from enum import StrEnum

from pydantic import Field

from shared.value import Value


class Reason(StrEnum):
    """Why a source has nothing to say."""

    NOT_ENABLED = "not_enabled"
    """Not switched on by the job or the request."""
    NOT_PERMITTED = "not_permitted"
    NOT_FOUND = "not_found"
    GONE = "gone"
    """It was there and ended during the look."""
    TIMED_OUT = "timed_out"
    UNREADABLE = "unreadable"
    """Its answer made no sense."""
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    """Looking was judged unsafe, or a limit of unhang's was reached."""


class Missing(Value):
    """One thing that could not be seen. Silence is evidence: it is carried to the verdict, never dropped."""

    source: str = Field(description="What was asked: a source of the agent, a file, or an agent's address.")
    reason: Reason
    detail: str = Field(default="", description="One sentence for a person, with what to do if that is known.")


WAITING_LAUNCHERS = "launchers"
"""The `source` of what an agent reports of launchers that have started no rank yet."""
