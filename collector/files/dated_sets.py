"""Which dumps of one rank are looks of their own, and when each was taken.

A record of Gloo holds no time of its dump: two dumps of a rank that stands still are as equal as a dump and its copy.
So equal ones are one look, unless whoever took them wrote down when, in a file beside each set that copying leaves as
it is: `date +%s > DIR/second/date`. Where there is such a file, times of files count for nothing.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping

from collector.files.walk import FoundFile
from shared.value import as_json
from shared.wire.trace import Trace

# 1795830408, what `date +%s` prints
_SECONDS = re.compile(rb"\s*(\d{9,10})\s*")


class DatedSets:
    """Dumps in folders, and the dates beside them."""

    def __init__(self) -> None:
        self._dates: dict[str, int] = {}
        self._written_ns: dict[str, int | None] = {}

    def take_date(self, found: FoundFile) -> bool:
        """Is it such a date? Then it is kept."""
        folder = _folder_of(found.name)
        told = _SECONDS.fullmatch(found.data) if found.name == f"{folder}date" else None
        if told is not None:
            self._dates[folder] = int(told[1]) * 1_000_000_000
        return told is not None

    def add(self, dump: FoundFile) -> None:
        """Keep when a dump's file was written."""
        self._written_ns[dump.name] = dump.written_ns

    def taken_ns(self, name: str) -> int | None:
        """Return when a dump was taken; None: nothing tells."""
        return self._dates.get(_folder_of(name)) if self._dates else self._written_ns[name]

    def copies(self, traces: Mapping[str, Trace]) -> Iterator[tuple[str, str]]:
        """Iterate over dumps of one rank that are no looks of their own, each with the one that it equals."""
        firsts: dict[tuple[bytes, int | None], str] = {}
        for name in sorted(traces) if len(traces) > 1 else ():
            held = hashlib.sha256(as_json(traces[name]).encode()).digest()
            first = firsts.setdefault((held, self._dates.get(_folder_of(name))), name)
            if first != name:
                yield name, first


def _folder_of(name: str) -> str:
    """Return `dumps.zip!second/` of `dumps.zip!second/date`."""
    return name[: max(name.rfind("/"), name.rfind("!")) + 1]
