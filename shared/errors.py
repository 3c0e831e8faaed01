"""The errors of unhang, one tree.

    UnhangError                  says what went wrong (str) and what to do about it (.advice)
    ├── InvalidInput             text or bytes from outside that do not parse; quotes the input
    │   ├── InvalidRankSet
    │   ├── InvalidHostlist
    │   └── UnreadableDump       a recorder dump, stack dump or snapshot that cannot be used
    ├── InvalidSettings          a flag, file or variable of ours that cannot be used
    ├── NotFound                 no such job, rank, process or diagnosis
    ├── NotPermitted             the operating system or the service refused
    └── Unreachable              a service did not answer, or not in time, or not with sense

Library code raises these and never exits or prints; the command line maps them to a message and a status.
"""


class UnhangError(Exception):
    """Base of all errors that unhang raises on purpose."""

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class InvalidInput(UnhangError):
    """Text or bytes from outside do not parse."""


class InvalidRankSet(InvalidInput):
    """A folded rank set such as `0-3,7` does not parse."""


class InvalidHostlist(InvalidInput):
    """A host list such as `node[01-16]:8471` does not parse."""


class UnreadableDump(InvalidInput):
    """A dump or snapshot is truncated, hostile, too large or of an unknown format."""


class InvalidSettings(UnhangError):
    """A setting of ours cannot be used."""


class NotFound(UnhangError):
    """The job, rank, process or diagnosis asked for does not exist."""


class TooBusy(UnhangError):
    """The machine is too busy to tell in time."""


class NotPermitted(UnhangError):
    """The operating system or a service refused."""


class Unreachable(UnhangError):
    """A service did not answer in time, or its answer made no sense."""


def quoted(text: str | bytes, *, most: int = 60) -> str:
    """Return hostile `text` as a short, printable quotation for an error message."""
    shown = repr(text[:most])
    return shown if len(text) <= most else f"{shown}… ({len(text)} long)"
