"""What a core file shows: which process died and why, where its threads were, and what could not be read."""

from pydantic import Field

from shared.missing import Missing
from shared.value import Value
from shared.wire.stacks import Stacks


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
