"""The kernel's log by syslog(2), where its device is not: to a pod CAP_SYSLOG can be given without being `privileged`.

The call returns all that the kernel's ring buffer holds, as text: what follows the last line of before is new. Format:
`info_print_prefix` in kernel/printk/printk.c of Linux. All lines of a record have the record's time, so a line with the
same time as the one before may come from a line feed in a name, which anybody can have logged: it is passed over.
"""

import ctypes
import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agent.deadline import Deadline
from agent.proc.libc import call_libc

_READ_ALL = 3
_SIZE_BUFFER = 10
_MOST_BYTES = 64 * 1024 * 1024
"""Of the buffer; distributions make it 128 KiB to 1 MiB, large machines 16 MiB."""
_BETWEEN_READS_SECONDS = 5.0
_BETWEEN_DEADLINE_CHECKS = 256

# <4>[12345.678901] NVRM: Xid …        <4>[12345.678901][  T912] NVRM: Xid …
_LINE = re.compile(rb"<(\d{1,4})>\[ *(\d{1,12}\.\d{6})\](?:\[ *[TC]\d{1,10}\])? (.*)", re.DOTALL)
_UNPRINTABLE = re.compile(rb"[^ -\[\]-~]")


class KernelMessage(NamedTuple):
    """One record of the kernel's own."""

    seconds: float
    """Since boot, by the kernel's clock."""
    text: str


class KernelRing:
    """Reads what is new in the ring buffer, once in five seconds: each call copies all of it."""

    def __init__(self, read: Callable[[], bytes] | None = None) -> None:
        self._read = read or read_ring
        self._not_before = 0.0
        self._last = self._time = b""
        """The last line that was read, and its time."""

    def new(self, deadline: Deadline) -> Iterator[KernelMessage]:
        """Iterate over the kernel's own records since the last one. Raises OSError at once where it may not be read."""
        if time.monotonic() < self._not_before:
            return iter(())
        data = self._read()
        self._not_before = time.monotonic() + _BETWEEN_READS_SECONDS
        return self._since_last(data, deadline)

    def _since_last(self, data: bytes, deadline: Deadline) -> Iterator[KernelMessage]:
        known = data.rfind(self._last) if self._last else -1
        new = data if known < 0 else data[known + len(self._last) :]
        for number, line in enumerate(new.split(b"\n")):
            if number % _BETWEEN_DEADLINE_CHECKS == 0 and deadline.left() <= 0:
                self._not_before = 0.0
                return
            found = _LINE.fullmatch(line)
            if found is None:
                continue
            priority, at, text = found.groups()
            continues = at == self._time
            self._last, self._time = line + b"\n", at
            if not continues and int(priority) >> 3 == 0:
                yield KernelMessage(float(at), _UNPRINTABLE.sub(_escaped, text).decode("ascii"))


def _escaped(found: re.Match[bytes]) -> bytes:
    """Write a byte as /dev/kmsg does."""
    return b"\\x%02x" % found[0][0]


def read_ring() -> bytes:
    """Return all that the kernel's ring buffer holds. Raises OSError."""
    # `klogctl` is syslog(2); libc's `syslog` is another.
    size = min(call_libc("klogctl", _SIZE_BUFFER, None, 0), _MOST_BYTES)
    buffer = ctypes.create_string_buffer(size)
    held = call_libc("klogctl", _READ_ALL, buffer, size)
    return buffer.raw[:held]
