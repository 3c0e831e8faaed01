"""Reads the memory of another process as it stands, without stopping it or asking it anything.

`/proc/PID/mem` rather than process_vm_readv(2): once open, the file stands for one program of one process. When that
exits or executes another program nothing more is read through it, whoever gets the process id next. It is as fast (4 µs
for a small read here, as many with either), and the kernel asks for ptrace's permission once, when it is opened.

What is read is the process's to choose. So every read is bounded, and all reads of one `ProcessMemory` share a budget
of bytes and a deadline. A page that its owner lets nobody read in time blocks the reader in the kernel: read in a task
of `agent.deadline.ThreadPool`, which leaves such a thread behind.
"""

import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.proc.credentials import require_own
from agent.proc.procfs import ProcFs, Stat
from shared.missing import Reason

MOST_BYTES = 64 * 1024 * 1024
"""That one look reads of a process's memory, if it does not say otherwise."""
_LARGEST_READ = 4 * 1024 * 1024
_LOWEST = 4096
_HIGHEST = 1 << 56
"""User space ends below that, also with five levels of page tables."""
_NO_SUCH_PAGE = (errno.EIO, errno.EFAULT, errno.ENXIO, errno.EINVAL, errno.EOVERFLOW)
_WORD = struct.Struct("<Q")


class Unreadable(Unavailable):
    """There is no memory at an address, or something else than what should be there."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.UNREADABLE, detail)


class ProcessMemory:
    """The memory of one program of one process; of what the process executes next nothing is read."""

    def __init__(self, file: int, pid: int, deadline: Deadline, *, most_bytes: int = MOST_BYTES) -> None:
        """`file` is an open /proc/PID/mem, which whoever opened it closes."""
        self.pid = pid
        self.bytes_read = 0
        self._file = file
        self._deadline = deadline
        self._most_bytes = most_bytes

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes. Raises Unreadable where there are fewer, Gone, or Unavailable past a limit."""
        data = self.read_some(address, size)
        if len(data) != size:
            raise Unreadable(f"process {self.pid} has no {size} bytes of memory at {address:#x}")
        return data

    def read_some(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes: fewer where the memory ends. Raises Gone, or Unavailable past a limit."""
        if not 0 <= size <= _LARGEST_READ:
            raise Unreadable(f"{size} bytes in one piece, of which at most {_LARGEST_READ} are read")
        if size == 0 or not _LOWEST <= address < _HIGHEST:
            return b""
        self._spend(size)
        try:
            data = os.pread(self._file, size, address)
        except OSError as error:
            if error.errno in _NO_SUCH_PAGE:
                return b""
            raise self._lost(error) from error
        return data or self._end()

    def read_into(self, buffer: bytearray, address: int) -> int:
        """Fill `buffer` from `address` on, as far as the memory reaches; return how many bytes were read."""
        if not _LOWEST <= address < _HIGHEST:
            return 0
        self._spend(len(buffer))
        try:
            count = os.preadv(self._file, [buffer], address)
        except OSError as error:
            if error.errno in _NO_SUCH_PAGE:
                return 0
            raise self._lost(error) from error
        return count or len(self._end())

    def word(self, address: int) -> int:
        """Return an unsigned 8-byte value, such as a pointer. Raises as `read` does."""
        return int(_WORD.unpack(self.read(address, 8))[0])

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return `count` unsigned 8-byte values. Raises as `read` does."""
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count))

    def _spend(self, size: int) -> None:
        self.bytes_read += size
        if self.bytes_read > self._most_bytes:
            told = f"more than {self._most_bytes} bytes of the memory of process {self.pid} would have to be read"
            raise Unavailable(Reason.REFUSED, told)
        if self._deadline.left() <= 0:
            told = f"the memory of process {self.pid} was not read within {self._deadline.seconds:.1f} s"
            raise Unavailable(Reason.TIMED_OUT, told)

    def _lost(self, error: OSError) -> Gone:
        return Gone(f"the memory of process {self.pid} can no longer be read: {error.strerror}")

    def _end(self) -> bytes:
        """The kernel answers with nothing where the program has ended, and with an error where a page is missing."""
        raise Gone(f"process {self.pid} has exited, or executed another program")


@contextmanager
def open_memory(
    procfs: ProcFs, process: Stat, deadline: Deadline, *, most_bytes: int = MOST_BYTES
) -> Iterator[ProcessMemory]:
    """Open the memory of a process that is its user's own, and of no other that has its number by now.

    The rights of the process are asked after it was opened: they are those of the program that the file stands for,
    since one that is executed later has other memory. Raises Gone, or NotPermitted where we may not trace it.
    """
    pid = process.pid
    with procfs.opened(pid, "mem") as file:
        require_own(procfs, pid)
        if procfs.stat(pid).start_ticks != process.start_ticks:
            raise Gone(f"process {pid} exited, and another process has its pid now")
        yield ProcessMemory(file, pid, deadline, most_bytes=most_bytes)
