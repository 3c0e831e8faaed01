"""A closer look at one process, on demand: a debugger's backtrace, the system calls of some seconds, or a core file."""

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
    """Python and native frames of all threads. Stops the process briefly."""
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


class CoreReport(Value):
    """One core file, read. Sizes in bytes."""

    file: str
    size_bytes: int
    missing_bytes: int = Field(default=0, description="How much of it is cut off; 0: nothing.")
    pid: int | None = None
    command: str = Field(default="", description="The first 80 characters of the command line, secrets redacted.")
    executable: str | None = Field(default=None, description="The program, as the core names it.")
    executable_found: bool = Field(default=False, description="Was that file found here? Without it names are missing.")
    libraries: int = Field(default=0, description="Libraries that were mapped.")
    libraries_missing: tuple[str, ...] = Field(
        default=(), description="Libraries that were not found here; at most 64."
    )
    signal: int | None = Field(default=None, description="The signal that killed it; None: dumped from a live process.")
    signal_name: str = ""
    thread: int | None = Field(default=None, description="The thread that received the signal, else the main thread.")
    python: Stacks | Missing
    native: Stacks | Missing
    story: str = Field(default="", description="What probably happened, in a sentence or two.")
    cause: str = Field(default="unknown", description="One of the causes of a diagnosis.")
