"""The kernel's log, /dev/kmsg: what the kernel tells of broken devices, hung tasks and killed processes.

Each read gives one record and never waits; the log is kept open, so that a look reads what is new and no more. Without
such a device, as in a pod, its ring buffer is read. Only records of the kernel's own facility count: whoever may
write to /dev/kmsg must not be able to accuse a node. Its process ids are
those of the initial PID namespace: in any other one, they are none of ours.
Format: Documentation/ABI/testing/dev-kmsg of Linux.
"""

import errno
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs, is_initial_namespace
from agent.sources.kernel_ring import KernelMessage, KernelRing
from shared.errors import NotPermitted
from shared.formats.kernel_lines import read_kernel_line
from shared.formats.kernel_repeats import KernelRecord
from shared.missing import Reason
from shared.wire.kernel_events import KernelEvents

KMSG = Path("/dev/kmsg")
_MOST_BYTES = 8192
"""Of one record; the kernel's own limit is 8 KiB (CONSOLE_EXT_LOG_MAX), and a read into less fails."""
_MOST_RECORDS = 200_000
_BETWEEN_DEADLINE_CHECKS = 256
_REFUSED = (errno.EPERM, errno.EACCES, errno.ENXIO)
"""The last is what systemd's ProtectKernelLogs puts in the place of the device."""
_ADVICE = (
    "run the agent as root or with CAP_SYSLOG (under systemd: the drop-in kernel-log.conf, on Kubernetes: the "
    "component kernel-log), or set kernel.dmesg_restrict=0"
)

_LINE_FEED = rb"\x0a"
"""Within a record, as the device writes it."""

# 6,1234,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79, …        the facility and level, a number, microseconds since boot
_HEAD = re.compile(rb"(\d{1,5}),(\d{1,20}),(\d{1,20}),[^;]{0,200};")


class KernelLog:
    """What the kernel log has told since it was opened, and before as far as it reaches. Safe from many threads."""

    def __init__(self, procfs: ProcFs, path: Path = KMSG, *, ring: KernelRing | None = None) -> None:
        """`ring`: what is read where `path` cannot be."""
        self._procfs = procfs
        self._path = path
        self._ring = ring
        self._lock = threading.Lock()
        self._opened: int | None = None
        self._began: float | None = None
        self._record = KernelRecord()
        self._has_our_numbers = is_initial_namespace("pid")

    def read(self, deadline: Deadline) -> KernelEvents:
        """Take in what is new and return what is known. Raises Unavailable or NotPermitted."""
        with self._lock:
            offset = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
            for record in self._new(deadline):
                at = round(record.seconds + offset, 1)
                self._began = at if self._began is None else self._began
                self._take(record.text, at)
            return KernelEvents(since=self._began, events=self._record.events)

    def close(self) -> None:
        """Let go of the log."""
        with self._lock:
            if self._opened is not None:
                os.close(self._opened)
                self._opened = None

    def _new(self, deadline: Deadline) -> Iterator[KernelMessage]:
        try:
            if self._opened is None:
                self._opened = _open(self._path)
        except (Unavailable, NotPermitted):
            if self._ring is None:
                raise
            with suppress(OSError):
                return self._ring.new(deadline)
            raise
        return self._records(self._opened, deadline)

    def _records(self, opened: int, deadline: Deadline) -> Iterator[KernelMessage]:
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
            self._record.take_other(text)
        else:
            pid, ours = event.pid, self._has_our_numbers
            number = {"pid": self._process_of(pid)} if ours else {"pid": None, "host_pid": pid}
            self._record.take(event.model_copy(update=number), at)

    def _process_of(self, task: int | None) -> int | None:
        """Return the process that a task belongs to, where that lives still: the kernel names threads."""
        if task is None:
            return None
        told = self._procfs.known_fields(task, "status").get("Tgid", "")
        return int(told) if told.isdecimal() else task


def parse_record(data: bytes) -> KernelMessage | None:
    """Read one record; None for one that is not the kernel's own, or makes no sense.

    What follows a line feed within it is left out, as where the ring is read: a name that the kernel logs may hold one.
    """
    head = _HEAD.match(data)
    if head is None or int(head[1]) >> 3 != 0:
        return None
    text = data[head.end() :].partition(b"\n")[0].partition(_LINE_FEED)[0]
    return KernelMessage(int(head[3]) / 1e6, text.decode(errors="replace"))


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno in _REFUSED:
            raise NotPermitted("not allowed to read the kernel log", advice=_ADVICE) from error
        raise Unavailable(Reason.NOT_FOUND, f"no kernel log: {path}: {error.strerror}") from error
