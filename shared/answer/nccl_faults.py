"""Versions of NCCL that are known to hang or crash jobs: one table, each row on a public report, which it names.

The agent reads from it when RAS must not be asked, `unhang check` what is risky in a job, and a verdict what may have
hung it. Kept short: a version is listed for what it does to a job that does nothing wrong.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from shared.answer.checks import Severity

Version = tuple[int, int, int]

ANY: Version = (0, 0, 0)
NEWEST: Version = (999, 0, 0)


class Asking(StrEnum):
    """In which state of a job asking RAS crashes it."""

    ALWAYS = "always"
    MAKING = "while communicators are made"
    YOUNG = "at the start"
    GAPS = "while processes do not answer"


class NcclFault(NamedTuple):
    """What versions from `first` to `last` do."""

    first: Version
    last: Version
    why: str
    report: str
    change: str = ""
    severity: Severity | None = None
    """How grave in a job that runs; None: only whoever asks RAS need know."""
    of_ras: bool = False
    """Is it in the RAS thread, which NCCL_RAS_ENABLE=0 leaves out?"""
    asking: Asking | None = None
    """When RAS must not be asked."""
    hangs: bool = False
    """Does it hang jobs, so that a hang may be of it?"""
    only_with: tuple[str, str] | None = None
    """A variable and its value without which it does not happen."""

    def has(self, version: Version, variables: Mapping[str, str] | None = None) -> bool:
        """Is it in a version? `variables`: those of the rank, None where they are not known."""
        told = variables or {}
        if self.of_ras and told.get("NCCL_RAS_ENABLE") == "0":
            return False
        needed = self.only_with is None or told.get(self.only_with[0]) == self.only_with[1]
        return needed and self.first <= version <= self.last


_WITHOUT_RAS = "upgrade NCCL, or set NCCL_RAS_ENABLE=0"
_WHERE_POLLED = f"{_WITHOUT_RAS} where something polls RAS"

NCCL_FAULTS: tuple[NcclFault, ...] = (
    NcclFault(
        (2, 27, 7),
        (2, 27, 7),
        "its RAS thread can crash the job with a segmentation fault, also where nobody asks RAS",
        "NVIDIA/nccl#1996",
        _WITHOUT_RAS,
        Severity.RISKY,
        of_ras=True,
    ),
    NcclFault(
        (2, 29, 2),
        (2, 29, 2),
        "a regression of this release hangs jobs; fixed in 2.29.3",
        "pytorch/pytorch#174338",
        "upgrade NCCL to 2.29.3 or newer",
        Severity.RISKY,
        hangs=True,
    ),
    NcclFault(
        (2, 28, 9),
        (2, 28, 9),
        "on Arm processors a call and the proxy thread can deadlock; fixed in 2.29.3",
        "NVIDIA/nccl#2353",
        "on Arm, upgrade NCCL to 2.29.3 or newer",
        Severity.NOTE,
        hangs=True,
    ),
    NcclFault(
        (2, 25, 1),
        (2, 25, 1),
        "ncclCommAbort can hang, so that a job does not end when a rank has failed; fixed in 2.26.2",
        "pytorch/pytorch#149351",
        "upgrade NCCL to 2.26.2 or newer",
        Severity.NOTE,
        hangs=True,
    ),
    NcclFault(
        (2, 20, 5),
        (2, 20, 5),
        "with CUDA graphs a launch can spin forever; not in 2.22.3",
        "NVIDIA/nccl#1251",
        "with CUDA graphs, upgrade NCCL to 2.22.3 or newer",
        Severity.NOTE,
        hangs=True,
    ),
    NcclFault(
        (2, 14, 3),
        (2, 16, 5),
        "with CUDA_LAUNCH_BLOCKING=1 it hangs; fixed in 2.17.1",
        "NVIDIA/nccl#750",
        "unset CUDA_LAUNCH_BLOCKING, or upgrade NCCL to 2.17.1 or newer",
        Severity.RISKY,
        hangs=True,
        only_with=("CUDA_LAUNCH_BLOCKING", "1"),
    ),
    NcclFault(
        (2, 27, 3),
        (2, 27, 3),
        "it can crash the job when RAS is asked",
        "NVIDIA/nccl#1762",
        _WHERE_POLLED,
        Severity.NOTE,
        of_ras=True,
        asking=Asking.ALWAYS,
    ),
    NcclFault(
        (2, 29, 7),
        (2, 29, 7),
        "it can crash the job when RAS is asked while communicators are made",
        "NVIDIA/nccl#2346",
        _WHERE_POLLED,
        Severity.NOTE,
        of_ras=True,
    ),
    NcclFault(
        ANY,
        NEWEST,
        "NCCL can crash when RAS is asked during that",
        "NVIDIA/nccl#1669, #2346",
        of_ras=True,
        asking=Asking.MAKING,
    ),
    NcclFault(
        ANY,
        (2, 27, 2),
        "NCCL {version} can crash when RAS is asked at the start",
        "NVIDIA/nccl#1669",
        of_ras=True,
        asking=Asking.YOUNG,
    ),
    NcclFault(
        (2, 27, 4),
        (2, 29, 1),
        "NCCL {version} can crash when RAS misses processes",
        "NVIDIA/nccl#1762",
        of_ras=True,
        asking=Asking.GAPS,
    ),
)

# 2.27.7; 2.29.3+cuda13.0
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?!\d)")


def parse_nccl_version(text: str | None) -> Version | None:
    """Read a version as NCCL, PyTorch or a log line prints it; None where there is none."""
    found = _VERSION.match(text or "")
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))
