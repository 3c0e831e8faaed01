"""How a process ended, even if another process has waited for it.

From 6.15 Linux keeps the exit status of a process for holders of a descriptor of it (pidfd) that was opened in time.
Older kernels do not. Structure and numbers: include/uapi/linux/pidfd.h.
"""

import fcntl
import os
import struct
import weakref

_GET_INFO = 0xC040_FF0B
"""PIDFD_GET_INFO for the first version of its structure, of 64 bytes."""
_SIZE = 64
_EXIT = 1 << 3
_STATUS_AT = 60


class HeldProcess:
    """A descriptor of one process; it does not keep the process from ending."""

    def __init__(self, pid: int) -> None:
        self._fd: int | None = None
        try:
            self._fd = os.pidfd_open(pid)
        except OSError:  # it has ended, we are out of descriptors, or a filter forbids the call
            return
        weakref.finalize(self, os.close, self._fd)

    def exit_status(self) -> int | None:
        """Return how it ended, as waitpid(2) gives it; None while it runs and where the kernel does not say."""
        if self._fd is None:
            return None
        answer = bytearray(struct.pack("=Q", _EXIT).ljust(_SIZE, b"\0"))
        try:
            fcntl.ioctl(self._fd, _GET_INFO, answer)
        except OSError:
            return None
        known = struct.unpack_from("=Q", answer)[0]
        return int(struct.unpack_from("=i", answer, _STATUS_AT)[0]) if known & _EXIT else None


def read_status(status: int | None) -> tuple[int | None, int | None]:
    """Return the exit code and the signal in a status of waitpid(2); one of them is None, or both."""
    if status is None:
        return None, None
    signal = status & 0x7F
    return (None, signal) if signal else (status >> 8 & 0xFF, None)
