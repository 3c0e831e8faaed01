"""Stacks of one process: threads, the table of frames that they share, and what threads wait for.

Frames are kept outermost first, which is how stacks merge into prefix trees. py-spy and faulthandler
print innermost first; their parsers reverse them once.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from shared.value import Value, is_within


class Frame(NamedTuple):
    """One frame. `line` is 0 if unknown, as in native code without debug information."""

    function: str
    file: str
    line: int
    native: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.function} ({place})"


class Thread(Value):
    """One thread's stack as indices into the table of its process, outermost first."""

    tid: int | None = Field(default=None, description="Kernel thread id; equal to the pid for the main thread.")
    name: str = ""
    active: bool | None = Field(default=None, description="Was it running on a CPU? None: not known.")
    holds_gil: bool | None = None
    switches: int | None = Field(
        default=None, description="How often it had gone to sleep when it was read; None: not known."
    )
    moves: bool = Field(
        default=False, description="Did it run while it was read? Its frames are then the outer ones alone."
    )
    frames: tuple[int, ...] = ()


class Stacks(Value):
    """Every Python thread of one process at one moment."""

    pid: int | None = None
    native: bool = Field(default=False, description="Are native (C, C++) frames included?")
    paused: bool = Field(default=True, description="Was the process paused while its stacks were read?")
    frames: tuple[Frame, ...] = Field(default=(), description="The table that the threads index.")
    threads: tuple[Thread, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse threads that point outside the table: the sender may be hostile."""
        if not all(is_within(thread.frames, len(self.frames)) for thread in self.threads):
            raise ValueError("a thread has a frame that is not in the table")
        return self

    def stack(self, thread: Thread) -> tuple[Frame, ...]:
        """Return one thread's frames, outermost first."""
        return tuple(map(self.frames.__getitem__, thread.frames))

    @property
    def main(self) -> Thread | None:
        """The main thread: the one whose id is the pid, else the one named so, else None."""
        named = None
        for thread in self.threads:
            if thread.tid is not None and thread.tid == self.pid:
                return thread
            if named is None and thread.name == "MainThread":
                named = thread
        return named


AwaitedKind = Literal[
    "store_key", "store_answer", "rooted_call", "queue", "future", "event", "thread", "task", "semaphore"
]
SharedKind = Literal["barrier", "condition", "event", "lock", "semaphore"]


class OfThread(Value):
    """A thread of the same process, as its Python knows it."""

    name: str
    tid: int = Field(description="Kernel thread id within its own namespace.")
    alive: bool


class OfProcesses(Value):
    """What processes share by multiprocessing to wait for each other, as its semaphore in their memory tells."""

    kind: SharedKind
    memory: str = Field(
        default="",
        pattern=r"^([0-9a-f]+:[0-9a-f]+ \d+)?$",
        description="Which it is on this node: device and inode of the memory, as in /proc/PID/maps.",
    )
    mine: bool = Field(default=False, description="Of a lock: does this process hold it itself?")
    lone: bool = Field(default=False, description="Has no other process on this node that memory?")
    parties: int | None = Field(default=None, ge=0, description="Of a barrier: how many meet there.")
    come: int | None = Field(default=None, ge=0, description="Of a barrier: how many have come.")


class Awaited(Value):
    """What one thread waits for, as its Python's memory tells: with what it has called, and who owes it."""

    tid: int = Field(description="Kernel thread id, as in the stacks.")
    at: Frame = Field(description="The thread's innermost Python frame when this was read.")
    kind: AwaitedKind = Field(
        description="`store_key`: keys of a store that are not set; `store_answer`: that the store answers; "
        "`rooted_call`: the other ranks, in an operation that has a root; in its own process `queue`, `future`, "
        "`event` (or condition, or lock), `thread` (its end), `task` (whatever it awaits); `semaphore`: other "
        "processes, by multiprocessing."
    )
    call: str = Field(description="The method that it has called: wait, Queue.get, …")
    keys: tuple[str, ...] = Field(default=(), description="Of a store, as the caller named them; secrets redacted.")
    prefix: str = Field(default="", description="What the store sets before these keys.")
    root: int | None = Field(default=None, ge=0, description="Which root it has passed, as a rank of the group.")
    size: int | None = Field(default=None, ge=0, description="How many items the queue has; None: not known.")
    limited: bool = Field(default=False, description="Does it wait for a limited time, by its own argument?")
    thread: OfThread | None = Field(default=None, description="Whose end is awaited.")
    shared: OfProcesses | None = Field(default=None, description="What it shares with the processes it waits for.")
    task: str = Field(default="", description="The task of an event loop that waits so; empty: a thread does.")
    chain: tuple[Frame, ...] = Field(default=(), description="Coroutines with what they await, outermost first.")
    ended: tuple[str, ...] = Field(default=(), description="Threads that its functions have at hand, and that ended.")
    alone: bool = Field(default=False, description="Does Python run no other thread in this process?")


class ServedKey(Value):
    """A key that is awaited in a store of PyTorch's: nobody has set it."""

    key: str = Field(description="With all prefixes of the stores before it; secrets redacted.")
    clients: int = Field(ge=1, description="How many processes or threads wait for it.")
    alike: tuple[str, ...] = Field(
        default=(), description="The last of the keys that are set and differ from it by numbers alone."
    )


class StackTable:
    """Builds the frame table of one process as its threads are read."""

    def __init__(self, frames: Iterable[Frame] = ()) -> None:
        self._index = {frame: at for at, frame in enumerate(frames)}

    def add(self, frame: Frame) -> int:
        """Return the index of `frame`, adding it when new."""
        return self._index.setdefault(frame, len(self._index))

    @property
    def frames(self) -> tuple[Frame, ...]:
        return tuple(self._index)
