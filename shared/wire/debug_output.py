"""What a closer look at one process gives, on demand: a debugger's backtrace, or the system calls of some seconds."""

from enum import StrEnum

from pydantic import Field

from shared.missing import Missing
from shared.value import Value
from shared.wire.stacks import Stacks


class How(StrEnum):
    """Which tool looks."""

    GDB = "gdb"
    """All threads with their native frames, those that no Python runs in too. Stops the process for seconds."""
    PYSTACK = "pystack"
    """Python and native frames of Python's threads. Stops the process for a moment."""
    SYSCALLS = "syscalls"
    """What it asks of the kernel for some seconds (strace). Slows each system call down while it lasts."""


class WaitingCall(Value):
    """A system call that a thread was in all the time."""

    tid: int
    call: str = Field(description="As strace words it: name, descriptor with its file, flags; no data.")


class SyscallTrace(Value):
    """The system calls of one process during some seconds. Data that is read or written is left out."""

    seconds: float
    counts: dict[str, int] = Field(default_factory=dict, description="Calls that were begun, by name.")
    waiting: tuple[WaitingCall, ...] = Field(default=(), description="Threads that were in one call throughout.")
    lines: tuple[str, ...] = Field(default=(), description="The first calls, as strace prints them.")
    truncated: bool = Field(default=False, description="Were there more lines than are kept?")


class DeepLook(Value):
    """One closer look at one rank."""

    rank: int
    host: str | None = None
    pid: int | None = None
    how: How
    took_seconds: float = Field(default=0.0, description="How long the look took; a debugger stops the rank as long.")
    stacks: Stacks | None = None
    syscalls: SyscallTrace | None = None
    remark: str = Field(default="", description="What it lacks, and why.")
    missing: Missing | None = Field(default=None, description="Why there is neither.")
