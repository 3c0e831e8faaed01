"""One rank's memory answers no read: a page that Python needs is left to userfaultfd(2), which nobody serves.

So does a page of a file in a FUSE file system whose process is stuck. The others wait in the world's all_reduce.
"""

import ctypes
import os
import struct
from pathlib import Path

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["unknown", "user_code"], "or_silent": True}

_USERFAULTFD = {"x86_64": 323, "aarch64": 282}[os.uname().machine]
_API, _REGISTER = 0xC018AA3F, 0xC020AA00
_MISSING = 1
_DONTNEED = 4


def leave_page() -> None:
    """Give up the memory that this function's code lies in, and wait for its return."""
    libc = ctypes.CDLL(None, use_errno=True)
    start, end = _around(id(leave_page.__code__))
    served = libc.syscall(_USERFAULTFD, os.O_CLOEXEC)
    for order, words in ((_API, (0xAA, 0, 0)), (_REGISTER, (start, end - start, _MISSING, 0))):
        if libc.ioctl(served, ctypes.c_ulong(order), struct.pack(f"={len(words)}Q", *words)) != 0:
            raise OSError(ctypes.get_errno(), "userfaultfd")
    libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONTNEED)


def _around(address: int) -> tuple[int, int]:
    """Return the mapping that an object lies in."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(word, 16) for word in line.partition(" ")[0].split("-"))
        if start <= address < end:
            return start, end
    raise LookupError(hex(address))


def main() -> None:
    """Train; at the faulty step one rank gives up what it needs, or all do where UNANSWERED is `all`."""
    rig.train(rig.start(), leave_page, astray=os.environ.get("UNANSWERED") == "all" or None)


if __name__ == "__main__":
    main()
