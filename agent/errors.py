"""The agent's own errors, below those of shared.errors.

NotFound
└── Gone            the process ended, or the thing asked for does not exist in it
UnhangError
└── Unavailable     a source has nothing to say about a rank, for a reason that is told
"""

from shared.errors import NotFound, UnhangError
from shared.missing import Reason


class Gone(NotFound):
    """The process ended, or the thing asked for does not exist in it."""


class Unavailable(UnhangError):
    """A source has nothing to say about this rank, for a known reason."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
