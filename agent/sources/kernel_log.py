"""The kernel's log, /dev/kmsg: what the kernel tells of broken devices, hung tasks and killed processes.

Each read gives one record and never waits; the log is kept open, so that a look reads what is new and no more. Only
records of the kernel's own facility count: whoever may write to /dev/kmsg must not be able to accuse a node.
Format: Documentation/ABI/testing/dev-kmsg of Linux.
"""

import errno
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.procfs import ProcFs
from shared.errors import NotPermitted
from shared.kernel_events import KernelEvent, KernelEventKind, KernelEvents
from shared.kernel_lines import read_kernel_frame, read_kernel_line
from shared.missing import Reason

KMSG = Path("/dev/kmsg")
_MOST_BYTES = 8192
"""Of one record; the kernel's own limit is 8 KiB (CONSOLE_EXT_LOG_MAX), and a read into less fails."""
_MOST_RECORDS = 200_000
_MOST_EVENTS = 128
_MOST_FRAMES = 12
_MOST_LINES_OF_A_STACK = 64
_BETWEEN_DEADLINE_CHECKS = 256
_REFUSED = (errno.EPERM, errno.EACCES, errno.ENXIO)
"""The last is what systemd's ProtectKernelLogs puts in the place of the device."""
_ADVICE = (
    "run the agent as root or with CAP_SYSLOG, under systemd by the drop-in kernel-log.conf, or set "
    "kernel.dmesg_restrict=0"
)

# 6,1234,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79, …        the facility and level, a number, microseconds since boot
_HEAD = re.compile(rb"(\d{1,5}),(\d{1,20}),(\d{1,20}),[^;]{0,200};")


class Record(NamedTuple):
    """One record of the kernel's own."""

    seconds: float
    """Since boot, by the kernel's clock."""
    text: str


class KernelLog:
    """What the kernel log has told since it was opened, and before as far as it reaches. Safe from many threads."""

    def __init__(self, procfs: ProcFs, path: Path = KMSG) -> None:
        self._procfs = procfs
        self._path = path
        self._lock = threading.Lock()
        self._opened: int | None = None
        self._began: float | None = None
        self._events: dict[tuple[object, ...], KernelEvent] = {}
        self._stack_of: tuple[object, ...] | None = None
        self._lines_of_stack = 0

    def read(self, deadline: Deadline) -> KernelEvents:
        """Take in what is new and return what is known. Raises Unavailable or NotPermitted."""
        with self._lock:
            if self._opened is None:
                self._opened = _open(self._path)
            offset = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
            for record in self._records(self._opened, deadline):
                at = round(record.seconds + offset, 1)
                self._began = at if self._began is None else self._began
                self._take(record.text, at)
            events = sorted(self._events.values(), key=lambda event: event.at or 0.0)
            return KernelEvents(since=self._began, events=tuple(events))

    def close(self) -> None:
        """Let go of the log."""
        with self._lock:
            if self._opened is not None:
                os.close(self._opened)
                self._opened = None

    def _records(self, opened: int, deadline: Deadline) -> Iterator[Record]:
        """Iterate over the records of the kernel's that are there, as far as the deadline and the limit reach."""
        for number in range(_MOST_RECORDS):
            if number % _BETWEEN_DEADLINE_CHECKS == 0 and deadline.left() <= 0:
                return
            try:
                data = os.read(opened, _MOST_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # records were overwritten before we read them; the next read goes on
                    continue
                raise Unavailable(Reason.UNREADABLE, f"{self._path}: {error.strerror}") from error
            if not data:
                return
            record = parse_record(data)
            if record is not None:
                yield record

    def _take(self, text: str, at: float) -> None:
        event = read_kernel_line(text)
        if event is None:
            self._take_frame(text)
            return
        event = event.model_copy(update={"at": at, "last_at": at, "pid": self._process_of(event.pid)})
        key = (event.kind, event.code, event.pid, event.device, event.interface, _shape(event))
        known = self._events.get(key)
        if known is not None:
            event = known.model_copy(update={"last_at": at, "count": known.count + 1})
        elif len(self._events) >= _MOST_EVENTS:
            del self._events[min(self._events, key=lambda old: self._events[old].last_at or 0.0)]
        self._events[key] = event
        told = event.kind in (KernelEventKind.HUNG_TASK, KernelEventKind.LOCKUP) and not event.stack
        self._stack_of, self._lines_of_stack = (key if told else None), 0

    def _take_frame(self, text: str) -> None:
        """Keep the kernel functions that follow a hung task's line: they say which driver holds it."""
        if self._stack_of is None:
            return
        self._lines_of_stack += 1
        event, frame = self._events.get(self._stack_of), read_kernel_frame(text)
        if event is None or "</TASK>" in text or self._lines_of_stack > _MOST_LINES_OF_A_STACK:
            self._stack_of = None
        elif frame is not None and len(event.stack) < _MOST_FRAMES:
            self._events[self._stack_of] = event.model_copy(update={"stack": (*event.stack, frame)})

    def _process_of(self, task: int | None) -> int | None:
        """Return the process that a task belongs to, where that lives still: the kernel names threads."""
        if task is None:
            return None
        try:
            told = self._procfs.fields(task, "status").get("Tgid", "")
        except (Gone, NotPermitted):
            return task
        return int(told) if told.isdecimal() else task


def parse_record(data: bytes) -> Record | None:
    """Read one record; None for one that is not the kernel's own, or makes no sense."""
    head = _HEAD.match(data)
    if head is None or int(head[1]) >> 3 != 0:
        return None
    text = data[head.end() :].partition(b"\n")[0]
    return Record(int(head[3]) / 1e6, text.decode(errors="replace"))


def _shape(event: KernelEvent) -> str:
    """What of a line stays the same when it is printed again, where nothing else tells lines apart."""
    return re.sub(r"\d+", "0", event.text)[:80]


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno in _REFUSED:
            raise NotPermitted("not allowed to read the kernel log", advice=_ADVICE) from error
        raise Unavailable(Reason.NOT_FOUND, f"no kernel log: {path}: {error.strerror}") from error
