"""Step 8's vocabulary: what a frame, a system call or a kernel function says about where a process is.

The tables themselves: `frames.toml` and `kernel.toml`. Data, not code paths: adding knowledge is adding a row.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shared.answer.words import Cause


class Doing(StrEnum):
    """What a thread is doing, as far as the hang is concerned."""

    COLLECTIVE = "collective"
    P2P = "p2p"
    STORE = "store"
    """Waiting for a rendezvous, a store key or a new group: for other ranks, outside any recorded sequence."""
    WORK = "work"
    """Waiting for communication of a kind that the frame does not tell (a work handle, a backward pass)."""
    DEVICE = "device"
    OUTSIDE = "outside"
    """In none of these: not waiting for another rank."""
    UNKNOWN = "unknown"


WAITS_FOR_RANKS = frozenset({Doing.COLLECTIVE, Doing.P2P, Doing.STORE, Doing.WORK})


class WaitsOn(StrEnum):
    """What a thread waits for, beyond what it is doing: where to look next."""

    CHILD = "child"
    """A child process, or a pool of them."""
    LOCK = "lock"
    LOCK_FILE = "lock_file"
    """A lock that processes share by a file, for which it asks again and again."""
    DATABASE = "database"
    """SQLite, which sleeps only while another process has locked its file; or the thread works in it."""
    OTHER_PROCESS = "other_process"
    """Another process, by a lock or the like that both have in their memory."""
    OWN_THREAD = "own_thread"
    """Another thread of its process."""
    SIGNAL = "signal"
    UNRECORDED = "unrecorded"
    """Other ranks, by what no flight recorder of PyTorch's records: remote calls, Horovod."""
    OTHER_JOBS = "other_jobs"
    """Jobs that train the same model and may come and go: the replica groups of torchft."""


class Told(StrEnum):
    """What tells where a thread is."""

    BY_PATTERN = "by_pattern"
    """A row of a table, the state of its process, or the kernel."""
    IN_USER_CODE = "in_user_code"
    """Nothing but that its innermost frame is the user's."""
    IN_LIBRARY = "in_library"
    """Nothing but that a library holds it that the user called."""
    NOT_SEEN = "not_seen"


MAY_PASS = frozenset({Cause.NETWORK, Cause.CHECKPOINT, Cause.COMPILE, Cause.IMPORT, Cause.FILESYSTEM})
"""Causes that a healthy job has, too, for a minute: only the kernel can say that it will not end by itself."""

TELLS_OF_CALLERS = frozenset({Cause.DATALOADER, Cause.CHECKPOINT, Cause.COMPILE, Cause.IMPORT, Cause.TEARDOWN})
"""Causes that a frame tells also where it has called user code: a data set's own reader, an exit handler, a module."""


@dataclass(frozen=True)
class FramePattern:
    """A frame whose function and file match says what the thread is doing and why."""

    doing: Doing
    cause: Cause
    label: str
    function: re.Pattern[str]
    file: re.Pattern[str]
    waits_on: WaitsOn | None = None

    @property
    def may_pass(self) -> bool:
        """May a healthy rank be there for a minute, too?"""
        return self.cause in MAY_PASS or self.waits_on is WaitsOn.CHILD


def frame_row(row: dict[str, Any]) -> FramePattern:
    """Return a row of `frames.toml`."""
    patterns = re.compile(row["function"]), re.compile(row.get("file", ""))
    waits_on = WaitsOn(row["waits_on"]) if "waits_on" in row else None
    return FramePattern(Doing(row["doing"]), Cause(row["cause"]), row["label"], *patterns, waits_on)


@dataclass(frozen=True)
class KernelPattern:
    """A system call on a certain kind of descriptor, or a wait channel, says what holds the process."""

    cause: Cause
    label: str
    syscall: re.Pattern[str]
    target: re.Pattern[str]
    wchan: re.Pattern[str]
    may_pass: bool
    """May it end by itself after a while, as a slow disk does?"""
    doing: Doing = Doing.OUTSIDE
    waits_on: WaitsOn | None = None


def kernel_row(row: dict[str, Any]) -> KernelPattern:
    """Return a row of `kernel.toml`."""
    return KernelPattern(
        Cause(row["cause"]),
        row["label"],
        re.compile(row.get("syscall", "")),
        re.compile(row.get("target", "")),
        re.compile(row.get("wchan", "")),
        row.get("may_pass", False),
        Doing(row.get("doing", Doing.OUTSIDE)),
        WaitsOn(row["waits_on"]) if "waits_on" in row else None,
    )
