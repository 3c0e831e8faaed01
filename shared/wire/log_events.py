"""Log tails and what is found in them: events, one per telling line, and the calls that NCCL was asked for."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from shared.value import Value
from shared.wire.nccl_calls import LoggedCommunicator


class EventKind(StrEnum):
    """What a log line tells, independent of its wording and version."""

    EXCEPTION = "exception"
    """A Python traceback's last line: type and message."""
    OUT_OF_MEMORY = "out_of_memory"
    DEVICE_ERROR = "device_error"
    """A CUDA call failed."""
    WATCHDOG_TIMEOUT = "watchdog_timeout"
    """The rank that prints it waited: a victim more often than not."""
    COLLECTIVE_MISMATCH = "collective_mismatch"
    BARRIER_FAILED = "barrier_failed"
    """A monitored barrier names ranks that did not come."""
    TRANSPORT_ERROR = "transport_error"
    """A connection closed, timed out or was reset; the peer is in `fields`."""
    RENDEZVOUS = "rendezvous"
    INTERFACE = "interface"
    """Which network NCCL has chosen; no fault by itself, compared across nodes."""
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
    number: int = Field(default=0, description="Its line among those that were read of the file, from 0.")
    stamp: str = Field(default="", description="The time as the line has it, by the writer's clock and zone.")
    at: float | None = Field(default=None, description="The same as Unix seconds, where the node's zone is known.")


class LogFile(Value):
    """The end of one log file."""

    path: str
    size_bytes: int = 0
    modified_at: float | None = Field(default=None, description="Unix seconds of the last write.")
    lines: tuple[str, ...] = Field(default=(), description="The last lines, oldest first, secrets redacted.")
    shared: bool = Field(default=False, description="Do others write it, too, so that the file says not who wrote?")


LAST_WORDS = 30
"""Lines that a process may still write when an exception has ended it, or a timeout holds it."""


def is_last_word(event: LogEvent, files: Iterable[LogFile]) -> bool:
    """Does little follow a line in its file, as far as is known? A process that has written much since went on."""
    for file in files:
        if file.path == event.path and file.lines:
            after = next((i for i, line in enumerate(reversed(file.lines)) if event.text[:100] in line), None)
            if after is None or after > LAST_WORDS:
                return False
    return True


class Logs(Value):
    """What one rank has written lately."""

    files: tuple[LogFile, ...] = ()
    events: tuple[LogEvent, ...] = ()
    communicators: tuple[LoggedCommunicator, ...] = Field(
        default=(), description="What NCCL was asked for, by NCCL_DEBUG_SUBSYS=COLL; empty where that is off."
    )
