"""Reads which versions a rank runs from files beside what it has mapped; nothing of it is imported or run.

PyTorch writes `torch/version.py` beside its libraries, the wheel of NCCL brings `nccl.h`, a system's libnccl carries
its version in its file's name, and the NVIDIA driver reports its own in /proc/driver/nvidia/version.
"""

import os
import re
from typing import NamedTuple

from agent.errors import Gone, Unavailable
from agent.proc.job_files import open_named
from agent.proc.on_behalf_of import Readers, readers_of
from agent.proc.procfs import ProcFs, read_bounded
from agent.proc.remembered import Remembered
from shared.errors import NotPermitted
from shared.wire.setup import Versions

_MOST_FILE_BYTES = 16_384

# 7f5a1c000000-7f5a1c026000 r--p 00000000 08:01 131    /opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so
_TORCH = re.compile(rb" (/[^\n]{1,1000})/lib/libtorch(?:_cpu|_cuda|_hip)?\.so(?:\n|$)")
# …-packages/nvidia/nccl/lib/libnccl.so.2        /usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3        librccl.so.1.0
_NCCL = re.compile(rb" (/[^\n]{1,1000})/lib(?:nccl|rccl)\.so([.\d]{0,20})(?:\n|$)")
# /usr/lib/libpython3.11.so.1.0
_LIBPYTHON = re.compile(rb"/libpython(3\.\d{1,2})[^/\n]{0,40}\.so")
# __version__ = '2.13.0+cpu'
_TORCH_VERSION = re.compile(r"^__version__\s*(?::[^=\n]{0,80})?=\s*['\"]([\w.+-]{1,60})['\"]", re.MULTILINE)
# cuda: Optional[str] = '12.8'
_CUDA_VERSION = re.compile(r"^cuda\s*(?::[^=\n]{0,80})?=\s*['\"]([\w.]{1,20})['\"]", re.MULTILINE)
# #define NCCL_VERSION_CODE 22703        #define NCCL_MAJOR 2
_NCCL_PART = re.compile(r"^#define NCCL_(MAJOR|MINOR|PATCH) (\d{1,4})\s*$", re.MULTILINE)
# NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024
# NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (root@host)
_DRIVER = re.compile(r"Kernel Module(?: for \w{1,20})?\s{1,4}(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)")
# python3.11
_PYTHON_NAME = re.compile(r"python(3\.\d{1,2})")


class Loaded(NamedTuple):
    """What a process has loaded. `nccl` is None where PyTorch is not there, so that it may still come."""

    versions: Versions
    nccl: bool | None


def read_versions(procfs: ProcFs, pid: int) -> Loaded:
    """Return the versions that process `pid` has loaded. Raises Gone or NotPermitted."""
    maps = procfs.maps(pid)
    readers = readers_of(procfs, pid)
    torch = _TORCH.search(maps)
    about = _text(procfs, pid, os.fsdecode(torch[1]) + "/version.py", readers) if torch is not None else ""
    library = _NCCL.search(maps)
    versions = Versions(
        torch=_first(_TORCH_VERSION, about),
        cuda=_first(_CUDA_VERSION, about),
        nccl=_nccl(procfs, pid, library, readers) if library is not None else None,
        python=_python(procfs, pid, maps),
        driver=driver_version(procfs),
    )
    return Loaded(versions, None if torch is None else library is not None)


def driver_version(procfs: ProcFs) -> str | None:
    """Return the version of the node's NVIDIA driver; None where there is none."""
    try:
        return _first(_DRIVER, read_bounded(f"{procfs.root}/driver/nvidia/version", 4096).decode(errors="replace"))
    except OSError:
        return None


def _nccl(procfs: ProcFs, pid: int, library: re.Match[bytes], readers: Readers) -> str | None:
    suffix = library[2].decode().strip(".")
    if suffix.count(".") >= 2:
        return suffix
    header = os.fsdecode(library[1]).rpartition("/")[0] + "/include/nccl.h"
    parts = dict(_NCCL_PART.findall(_text(procfs, pid, header, readers)))
    return ".".join(parts[part] for part in ("MAJOR", "MINOR", "PATCH")) if len(parts) == 3 else None


def _python(procfs: ProcFs, pid: int, maps: bytes) -> str | None:
    library = _LIBPYTHON.search(maps)
    if library is not None:
        return library[1].decode()
    return _first(_PYTHON_NAME, procfs.link(pid, "exe").rpartition("/")[2])


def _text(procfs: ProcFs, pid: int, path: str, readers: Readers) -> str:
    """Return the beginning of a file as the process sees it; "" where it may not be read, or is not there."""
    try:
        with open_named(procfs, pid, path, readers) as file:
            return os.pread(file, _MOST_FILE_BYTES, 0).decode(errors="replace")
    except (Unavailable, Gone, NotPermitted, OSError):
        return ""


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else match[1]


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
        self._known = Remembered[NcclVersion | None](_MOST_REMEMBERED)

    def of(self, procfs: ProcFs, pid: int) -> NcclVersion | None:
        """Return the version that a process has loaded; None if that is not known. Raises Gone or NotPermitted."""
        mapped = _MAPPED.search(procfs.maps(pid).decode(errors="replace"))
        if mapped is None:
            return None
        if mapped[5] is not None:
            return NcclVersion(int(mapped[3]), int(mapped[4]), int(mapped[5]))
        return self._known.once((mapped[1], mapped[2]), lambda: _written_in(procfs, pid, mapped[2]))


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
