"""A closer look at one process, on demand: a debugger's backtrace, or the system calls of some seconds."""

from enum import StrEnum

from pydantic import Field

from shared.missing import Missing
from shared.value import Value
from shared.wire.stacks import Stacks


class How(StrEnum):
    """The tool that is used."""

    GDB = "gdb"
    """All threads with native frames, including threads without Python. Stops the process for seconds."""
    PYSTACK = "pystack"
    """Python and native frames of Python threads. Stops the process briefly."""
    SYSCALLS = "syscalls"
    """System calls for some seconds (strace). Each of them is slower during that time."""


class WaitingCall(Value):
    """A system call that a thread stayed in throughout."""

    tid: int
    call: str = Field(description="In strace's notation: name, file descriptor with its target, flags; no data.")


class SyscallTrace(Value):
    """The system calls of one process during some seconds, without the data that is read or written."""

    seconds: float
    counts: dict[str, int] = Field(default_factory=dict, description="Calls begun, by name.")
    waiting: tuple[WaitingCall, ...] = Field(default=(), description="Threads that stayed in one call throughout.")
    lines: tuple[str, ...] = Field(default=(), description="The first calls, as strace prints them.")
    truncated: bool = Field(default=False, description="Were lines left out?")


class DeepLook(Value):
    """One closer look at one rank."""

    rank: int
    host: str | None = None
    pid: int | None = None
    how: How
    took_seconds: float = Field(default=0.0, description="How long it took; a debugger stops the rank for as long.")
    stacks: Stacks | None = None
    syscalls: SyscallTrace | None = None
    remark: str = Field(default="", description="What is missing from it, and why.")
    missing: Missing | None = Field(default=None, description="Why there are neither stacks nor system calls.")
