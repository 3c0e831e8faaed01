"""What a core file tells: who died of what, where all its threads were, and what the reading could not find."""

from pydantic import Field

from shared.missing import Missing
from shared.value import Value
from shared.wire.stacks import Stacks


class CoreReport(Value):
    """One core file, read. Sizes in bytes."""

    file: str
    size_bytes: int
    missing_bytes: int = Field(default=0, description="How much of it is cut off; 0: it is whole.")
    pid: int | None = None
    command: str = Field(default="", description="The first 80 characters of the command line, secrets taken out.")
    executable: str | None = Field(default=None, description="The program, as the core names it.")
    executable_found: bool = Field(default=False, description="Is that file here? Without it names are missing.")
    libraries: int = Field(default=0, description="Libraries that were mapped.")
    libraries_missing: tuple[str, ...] = Field(default=(), description="Those that are not here; at most 64 are named.")
    signal: int | None = Field(
        default=None, description="The signal that ended it; None: it was taken of a living one."
    )
    signal_name: str = ""
    thread: int | None = Field(default=None, description="The thread that got the signal, else the main thread.")
    python: Stacks | Missing
    native: Stacks | Missing
    story: str = Field(default="", description="The likely story, in a sentence or two.")
    cause: str = Field(default="unknown", description="One of the causes of a diagnosis.")
