"""The agent's own errors, below those of shared.errors.

NotFound
└── Gone            the process ended, or the thing asked for does not exist in it
UnhangError
└── Unavailable     a source has nothing about a rank, and says why
"""

from agent.deadline import Blocked, Late, NoThread, TooManyAbandoned
from shared.errors import NotFound, NotPermitted, UnhangError
from shared.missing import Missing, Reason


class Gone(NotFound):
    """The process ended, or the thing asked for does not exist in it."""


class Unavailable(UnhangError):
    """A source has nothing to say about this rank, for a known reason."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def no_page(function: str) -> Unavailable:
    """Return why memory cannot be read: whoever reads it waits in this function of the kernel."""
    detail = "a page of its memory does not come: the file system, or the process, that has to bring it does not answer"
    return Unavailable(Reason.REFUSED, f"{detail} ({function})")


def missing_for(source: str, error: Exception) -> Missing:
    """Say as a value why a source has nothing."""
    advice = getattr(error, "advice", "")
    detail = f"{error}; {advice}" if advice else str(error)
    match error:
        case Unavailable():
            reason = error.reason
        case Gone():
            reason = Reason.GONE
        case NotPermitted():
            reason = Reason.NOT_PERMITTED
        case Blocked():
            return missing_for(source, no_page(str(error)))
        case Late():
            reason, detail = Reason.TIMED_OUT, "it did not finish by the deadline"
        case TooManyAbandoned():
            reason, detail = Reason.REFUSED, "too many earlier looks have not returned"
        case NoThread():
            reason, detail = Reason.REFUSED, f"it was not started: {error}"
        case _:
            reason, detail = Reason.UNREADABLE, f"unexpected {type(error).__name__}: {error}"[:500]
    return Missing(source=source, reason=reason, detail=detail)
