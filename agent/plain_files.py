"""Opens plain files and nothing else: opening a device can do something, opening a FIFO can block.

A path may come to mean another file between a look at it and its opening. So it is first taken hold of without
being opened (O_PATH), and what is held is looked at and then opened.
"""

import os
import stat

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class NotPlain(OSError):
    """The path leads to something else than a plain file."""


def hold(path: str, *, flags: int = 0, folder: int | None = None) -> int:
    """Return a descriptor that names a file without opening it."""
    return os.open(path, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=folder)


def open_held_file(held: int) -> int:
    """Open for reading what a descriptor of `hold` names. Raises NotPlain."""
    if not stat.S_ISREG(os.fstat(held).st_mode):
        raise NotPlain("not a plain file")
    return os.open(f"/proc/self/fd/{held}", _READ)
