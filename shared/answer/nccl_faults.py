"""Versions of NCCL that are known to hang or crash jobs: one table, `nccl_faults.toml`."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from shared.answer.checks import Severity
from shared.packs import read_pack

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


# 2.27.7; 2.29.3+cuda13.0
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?!\d)")


def parse_nccl_version(text: str | None) -> Version | None:
    """Read a version as NCCL, PyTorch or a log line prints it; None where there is none."""
    found = _VERSION.match(text or "")
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def _fault(row: dict[str, Any]) -> NcclFault:
    name, _, value = row.get("only_with", "").partition("=")
    return NcclFault(
        first=parse_nccl_version(row.get("first")) or ANY,
        last=parse_nccl_version(row.get("last")) or NEWEST,
        why=row["why"],
        report=row["report"],
        change=row.get("change", ""),
        severity=Severity(row["severity"]) if "severity" in row else None,
        of_ras=row.get("of_ras", False),
        asking=Asking(row["asking"]) if "asking" in row else None,
        hangs=row.get("hangs", False),
        only_with=(name, value) if name else None,
    )


NCCL_FAULTS = tuple(map(_fault, read_pack(__file__, "nccl_faults.toml")["faults"]))
