"""How far each process group of a rank had got when an agent last read the rank's memory."""

from pydantic import Field

from shared.value import Value


class Mark(Value):
    """How far one process group is."""

    group: str = Field(description="The name of the process group.")
    description: str = ""
    op: str = Field(description="The operation that was issued last, e.g. `all_reduce`.")
    sequence: int | None = Field(
        default=None, description="Its number in the group; None where only point-to-point operations were issued."
    )
    completed: int | None = Field(default=None, description="The last collective that was completed, if known.")
    issued_at_ns: int = Field(description="When the last operation was issued, Unix nanoseconds on the node.")
    since_ns: int = Field(description="When a beat first found the group there, Unix nanoseconds.")


class Marks(Value):
    """The marks of one rank at one moment."""

    read_at_ns: int = Field(description="When its memory was read last, Unix nanoseconds on the node.")
    groups: tuple[Mark, ...] = Field(default=(), description="The latest to issue anything first, at most sixteen.")
