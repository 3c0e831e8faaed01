"""Log tails and what is found in them: one event per relevant line, and the calls that NCCL logged."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from shared.value import Value
from shared.wire.nccl_calls import LoggedCommunicator


class EventKind(StrEnum):
    """What a log line means, independent of its wording and version."""

    EXCEPTION = "exception"
    """A Python traceback's last line: type and message."""
    OUT_OF_MEMORY = "out_of_memory"
    DEVICE_ERROR = "device_error"
    """A CUDA call failed."""
    WATCHDOG_TIMEOUT = "watchdog_timeout"
    """The rank that prints it was waiting: usually a victim."""
    COLLECTIVE_MISMATCH = "collective_mismatch"
    BARRIER_FAILED = "barrier_failed"
    """A monitored barrier names ranks that did not reach it."""
    TRANSPORT_ERROR = "transport_error"
    """A connection closed, timed out or was reset; the peer is in `fields`."""
    RENDEZVOUS = "rendezvous"
    INTERFACE = "interface"
    """The network that NCCL chose; not a fault, but compared across nodes."""
    VERSION = "version"
    """The version of a library; not a fault, but some versions have one."""
    DUMP_SIGNAL = "dump_signal"
    SIGNAL = "signal"
    GIL = "gil"
    SAYS_WAIT = "says_wait"
    """Somebody says in words of his own that he waits, or how long: told, and nobody is accused by it."""
    SAYS_ERROR = "says_error"
    """A line that tells of trouble in words that no row knows: told, and nobody is accused by it."""
    LAST_LINE = "last_line"
    """Where a log ends, or whoever tells nothing else stops: told, and nobody is accused by it."""


VOICES = frozenset({EventKind.SAYS_WAIT, EventKind.SAYS_ERROR, EventKind.LAST_LINE})
"""What is told beside a verdict, and never counts for one."""


class LogEvent(Value):
    """One matched line and what was parsed from it."""

    kind: EventKind
    rank: int | None = Field(default=None, description="Global rank that wrote it, if the line or file says so.")
    text: str = Field(description="The line, secrets redacted, cut to 500 characters.")
    fields: dict[str, str] = Field(default_factory=dict, description="Named parts, e.g. sequence, op, peer, type.")
    path: str = Field(default="", description="The file that contains it.")
    number: int = Field(default=0, description="Its line number among the lines read from the file, from 0.")
    stamp: str = Field(default="", description="The time as printed in the line, in the writer's clock and time zone.")
    at: float | None = Field(default=None, description="The same as Unix seconds, if the node's time zone is known.")


class LogFile(Value):
    """The end of one log file."""

    path: str
    size_bytes: int = 0
    modified_at: float | None = Field(default=None, description="Unix seconds of the last write.")
    lines: tuple[str, ...] = Field(default=(), description="The last lines, oldest first, secrets redacted.")
    shared: bool = Field(default=False, description="Do others write it, too, so that the file says not who wrote?")


LAST_WORDS = 30
"""Lines that a process may still write after the exception or timeout that ended its work."""


def is_last_word(event: LogEvent, files: Iterable[LogFile]) -> bool:
    """Is the line near the end of its file, as far as is known? A process that wrote much after it went on."""
    for file in files:
        if file.path == event.path and file.lines:
            after = next((i for i, line in enumerate(reversed(file.lines)) if event.text[:100] in line), None)
            if after is None or after > LAST_WORDS:
                return False
    return True


class Logs(Value):
    """What one rank wrote recently."""

    files: tuple[LogFile, ...] = ()
    events: tuple[LogEvent, ...] = ()
    communicators: tuple[LoggedCommunicator, ...] = Field(
        default=(), description="NCCL calls logged by NCCL_DEBUG_SUBSYS=COLL; empty if that is off."
    )
