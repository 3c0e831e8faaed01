"""Versions of NCCL that are known to hang or crash jobs. Each row stands on a public report, which it names.

Kept short: a version is listed for what it does to a job that does nothing wrong, not for every bug it has.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from collector.checks.facts import JobFacts, Rule, check_of, who_with
from shared.answer.checks import Check, CheckId, Severity
from shared.wire.setup import Setup

_Version = tuple[int, int, int]


class _Fault(NamedTuple):
    first: _Version
    last: _Version
    severity: Severity
    why: str
    report: str
    change: str
    of_ras: bool = False
    """Is it in the RAS thread, which NCCL_RAS_ENABLE=0 leaves out?"""


_WITHOUT_RAS = "upgrade NCCL, or set NCCL_RAS_ENABLE=0"
_FAULTS = (
    _Fault(
        (2, 27, 7),
        (2, 27, 7),
        Severity.RISKY,
        "its RAS thread can crash the job with a segmentation fault, also where nobody asks RAS",
        "NVIDIA/nccl#1996",
        _WITHOUT_RAS,
        of_ras=True,
    ),
    _Fault(
        (2, 27, 3),
        (2, 27, 3),
        Severity.NOTE,
        "it can crash the job when RAS is asked",
        "NVIDIA/nccl#1762",
        f"{_WITHOUT_RAS} where something polls RAS",
        of_ras=True,
    ),
    _Fault(
        (2, 29, 7),
        (2, 29, 7),
        Severity.NOTE,
        "it can crash the job when RAS is asked while communicators are made",
        "NVIDIA/nccl#2346",
        f"{_WITHOUT_RAS} where something polls RAS",
        of_ras=True,
    ),
    _Fault(
        (2, 29, 2),
        (2, 29, 2),
        Severity.RISKY,
        "a regression of this release hangs jobs; fixed in 2.29.3",
        "pytorch/pytorch#174338",
        "upgrade NCCL to 2.29.3 or newer",
    ),
)
# 2.27.7; 2.29.3+cuda13.0
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?!\d)")


def nccl_known_fault(facts: JobFacts) -> Iterator[Check]:
    """Ranks that have loaded such a version."""
    for fault in _FAULTS:
        who = facts.those(partial(_has, fault))
        if who:
            versions = sorted({each.setup.versions.nccl or "" for each in who if each.setup is not None})
            yield check_of(
                CheckId.NCCL_KNOWN_FAULT,
                fault.severity,
                who,
                seen=f"{who_with(who, 'have')} loaded NCCL {', '.join(versions[:4])}",
                why=f"{fault.why} ({fault.report})",
                change=fault.change,
            )


def _has(fault: _Fault, setup: Setup) -> bool:
    version = None if not setup.nccl_loaded else _VERSION.match(setup.versions.nccl or "")
    if version is None or (fault.of_ras and setup.variables.get("NCCL_RAS_ENABLE") == "0"):
        return False
    return fault.first <= (int(version[1]), int(version[2]), int(version[3])) <= fault.last


NCCL_VERSIONS: tuple[Rule, ...] = (nccl_known_fault,)
