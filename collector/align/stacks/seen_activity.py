"""What a rank was seen doing: the value that everything else here reads, tells or refines."""

import re
from dataclasses import dataclass, replace

from collector.align.stacks.awaited import ThreadWait
from collector.align.stacks.tables.row_types import WAITS_FOR_RANKS, Doing, Told, WaitsOn
from shared.answer.diagnosis import Place, Where
from shared.answer.words import Cause
from shared.wire.stacks import Frame, OfProcesses

# _blocking (grpc/_channel.py:1190); __await__ (grpc/aio/_call.py:327); get_objects (ray/_private/worker.py:1007)
_BY_THREADS = re.compile(r"(^|/)(grpc/(aio/)?_\w+|ray/_private/worker)\.py$")
_PLAIN = frozenset({Told.IN_USER_CODE, Told.IN_LIBRARY})
"""Neither a frame nor the kernel tells anything."""


@dataclass(frozen=True)
class Activity:
    """What one rank is doing now. `frames` is the telling thread's stack, outermost first."""

    doing: Doing
    cause: Cause
    label: str
    """For people: nothing is decided by it."""
    told: Told = Told.BY_PATTERN
    waits_on: frozenset[WaitsOn] = frozenset()
    op: str | None = None
    thread: str = ""
    frames: tuple[Frame, ...] = ()
    user: Frame | None = None
    process: str = ""
    child: str = ""
    kernel_agrees: bool = False
    """Does the kernel (state, system call, children) tell the same story as the stack?"""
    kernel_tells: bool = False
    """Does the kernel tell what exactly holds it?"""
    may_pass: bool = False
    """Is it where a healthy rank may be for a minute, too: network, disk, a child process, a thread of its own?"""
    may_be_idle: bool = False
    """Does it look like a loop that waits for work, which may take for ever and is no fault?"""
    is_owed: bool = False
    """Would it look idle, if others did not wait for its own part in an operation on record?"""
    runs_call: bool = False
    """Does it run a remote procedure call of another rank's?"""
    c_read: bool = False
    """Was a native stack of it read, or of a rank at the same place?"""
    keeps_gil: bool = False
    """Is the thread asleep without having let go of the interpreter, so that no other thread can run?"""
    awaited: ThreadWait | None = None
    """What it waits for, where its Python's memory tells."""

    @property
    def waits_for_ranks(self) -> bool:
        return self.doing in WAITS_FOR_RANKS

    @property
    def shared(self) -> OfProcesses | None:
        """What processes share, by which it waits for another of them."""
        return None if self.awaited is None else self.awaited.awaited.shared

    @property
    def waits_for_others(self) -> bool:
        """Does it wait for work, or for another process by what both share?"""
        return self.may_be_idle or WaitsOn.OTHER_PROCESS in self.waits_on

    @property
    def asks_by_threads(self) -> bool:
        """Does it call a service by gRPC, or an actor of Ray's, whose own threads hold the connection?"""
        chain = () if self.awaited is None else self.awaited.awaited.chain
        return any(_BY_THREADS.search(frame.file) for frame in (*self.frames, *chain))

    @property
    def is_plain(self) -> bool:
        """Is it known only whose code it is in?"""
        return self.told in _PLAIN

    @property
    def in_c(self) -> bool:
        """Does C code hold it that the user or an unknown library called? The caller's name does not tell which."""
        called = self.told is Told.IN_LIBRARY or (self.user is not None and self.frames[-1] == self.user)
        return self.doing is Doing.OUTSIDE and called and not self.kernel_tells

    @property
    def where(self) -> Where | None:
        if not self.frames and not self.process:
            return None
        innermost = self.frames[-1] if self.frames else None
        return Where(
            user=None if self.user is None else place(self.user),
            library=None if innermost is None or innermost == self.user else place(innermost),
            thread=self.thread,
            process=self.process,
            child=self.child,
        )


NOT_SEEN = Activity(Doing.UNKNOWN, Cause.UNKNOWN, "not seen", told=Told.NOT_SEEN)


def place(frame: Frame) -> Place:
    return Place(function=frame.function, file=frame.file, line=frame.line)


def with_awaited(seen: Activity, wait: ThreadWait | None) -> Activity:
    """Say what it waits for. A call to a store leaves no Python frame but its caller's, a coroutine none at all."""
    if wait is None:
        return seen
    if wait.in_store:
        told = replace(seen, label=str(wait), told=Told.BY_PATTERN, waits_on=frozenset(), awaited=wait)
        return replace(told, doing=Doing.STORE, cause=Cause.RENDEZVOUS)
    if wait.awaited.root is not None:
        return replace(seen, awaited=wait)
    if wait.awaited.shared is not None:
        said = replace(_said(seen, wait), told=Told.BY_PATTERN, waits_on=frozenset({WaitsOn.OTHER_PROCESS}))
        return replace(said, cause=Cause.USER_CODE, may_pass=True, may_be_idle=False)
    if not seen.may_be_idle and WaitsOn.OWN_THREAD not in seen.waits_on:
        return seen
    said = _said(seen, wait)
    return replace(said, may_be_idle=False, may_pass=False) if wait.is_final else said


def _said(seen: Activity, wait: ThreadWait) -> Activity:
    return replace(seen, label=str(wait), awaited=wait, user=wait.user or seen.user)
