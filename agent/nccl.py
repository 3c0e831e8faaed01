"""Which NCCL a process has loaded, told by the library that it has mapped."""

import os
import re
from typing import NamedTuple

from agent.errors import Gone, Unavailable
from agent.job_files import open_named
from agent.procfs import ProcFs
from agent.readers import readers_of
from shared.errors import NotPermitted

_MOST_MAPS_BYTES = 4 * 1024 * 1024
_MOST_SCANNED = 16 * 1024 * 1024
"""The text lies in .rodata, before the device code: at byte 1,769,545 of the 430 MB of 2.27.3."""
_PIECE = 1024 * 1024
_OVERLAP = 64
_MOST_REMEMBERED = 256

# 7f2b40000000-7f2b40042000 r--p 00000000 08:01 5243 /opt/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2
_MAPPED = re.compile(r"^\S+ \S+ \S+ (\S+ \d+) +(/.*/libnccl\.so(?:\.(\d+)(?:\.(\d+)\.(\d+))?)?)$", re.MULTILINE)
# NCCL version 2.27.3+cuda12.9        NCCL version 2.27.3 compiled with CUDA 12.9
_WRITTEN = re.compile(rb"NCCL version (\d{1,3})\.(\d{1,3})\.(\d{1,3})(?!\d)")


class NcclVersion(NamedTuple):
    """Comparable: `NcclVersion(2, 27, 3) < NcclVersion(2, 28, 0)`."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class NcclVersions:
    """Tells versions, and remembers what each file held."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], NcclVersion | None] = {}

    def of(self, procfs: ProcFs, pid: int) -> NcclVersion | None:
        """Return the version that a process has loaded; None where that cannot be told. Raises Gone or NotPermitted."""
        mapped = _MAPPED.search(procfs.text(pid, "maps", most=_MOST_MAPS_BYTES))
        if mapped is None:
            return None
        if mapped[5] is not None:
            return NcclVersion(int(mapped[3]), int(mapped[4]), int(mapped[5]))
        key = (mapped[1], mapped[2])
        if key not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = _written_in(procfs, pid, mapped[2])
        return self._known[key]


def _written_in(procfs: ProcFs, pid: int, path: str) -> NcclVersion | None:
    try:
        with open_named(procfs, pid, path, readers_of(procfs, pid)) as opened:
            return _scan(opened)
    except (Gone, NotPermitted, Unavailable):
        return None


def _scan(opened: int) -> NcclVersion | None:
    """Look through the beginning of a library for the version that it prints of itself."""
    kept = b""
    for at in range(0, _MOST_SCANNED, _PIECE):
        piece = os.pread(opened, _PIECE, at)
        found = _WRITTEN.search(kept + piece)
        if found is not None:
            return NcclVersion(*(int(number) for number in found.groups()))
        if len(piece) < _PIECE:
            break
        kept = piece[-_OVERLAP:]
    return None
