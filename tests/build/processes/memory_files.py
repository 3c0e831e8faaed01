"""Where files are in memory: on a disk the kernel works for a quarter of a second to create a thousand of them."""

import os
from pathlib import Path

_MEMORY = Path("/dev/shm")
_LEAST_FREE_BYTES = 2**30
"""Of a container it is often 64 MiB, which others need."""


def in_memory() -> Path | None:
    """Return a folder of everybody's, as /tmp is, whose files are in memory; None where it may not be used so."""
    try:
        there = os.statvfs(_MEMORY)
    except OSError:
        return None
    free = there.f_bavail * there.f_frsize >= _LEAST_FREE_BYTES
    return _MEMORY if free and not there.f_flag & os.ST_NOEXEC and os.access(_MEMORY, os.W_OK) else None
