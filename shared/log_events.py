"""Log tails and the events found in them."""

from enum import StrEnum

from pydantic import Field

from shared.value import Value


class EventKind(StrEnum):
    """What a log line tells, independent of its wording and version."""

    EXCEPTION = "exception"
    """A Python traceback's last line: type and message."""
    OUT_OF_MEMORY = "out_of_memory"
    WATCHDOG_TIMEOUT = "watchdog_timeout"
    """The rank that prints it waited: a victim more often than not."""
    COLLECTIVE_MISMATCH = "collective_mismatch"
    BARRIER_FAILED = "barrier_failed"
    """A monitored barrier names ranks that did not come."""
    TRANSPORT_ERROR = "transport_error"
    """A connection closed, timed out or was reset; the peer is in `fields`."""
    RENDEZVOUS = "rendezvous"
    DUMP_SIGNAL = "dump_signal"
    SIGNAL = "signal"
    GIL = "gil"


class LogEvent(Value):
    """One matched line, with what was read from it."""

    kind: EventKind
    rank: int | None = Field(default=None, description="Global rank that wrote it, where the line or file tells.")
    text: str = Field(description="The line, secrets redacted, cut to 500 characters.")
    fields: dict[str, str] = Field(default_factory=dict, description="Named parts, e.g. sequence, op, peer, type.")
    path: str = Field(default="", description="The file it stands in.")


class LogFile(Value):
    """The end of one log file."""

    path: str
    size_bytes: int = 0
    modified_at: float | None = Field(default=None, description="Unix seconds of the last write.")
    lines: tuple[str, ...] = Field(default=(), description="The last lines, oldest first, secrets redacted.")


class Logs(Value):
    """What one rank has written lately."""

    files: tuple[LogFile, ...] = ()
    events: tuple[LogEvent, ...] = ()
