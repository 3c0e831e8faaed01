"""Files of stacks, and logs that hold some: whose they are is decided when all files are read."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from collector.files.rank_of_file import rank_of_stacks, ranks_in_processes, ranks_in_stacks
from collector.files.sniff import FileKind
from shared.formats.gdb_dumps import parse_gdb_dump
from shared.formats.grouped_stacks import parse_grouped_stacks
from shared.formats.pyspy_processes import (
    cut_out_of_log,
    holds_process,
    lines_beside,
    parse_pyspy_processes,
    ranks_by_title,
)
from shared.formats.stack_dumps import parse_faulthandler, parse_pyspy_json, parse_pystack_dump
from shared.wire.stacks import Stacks

# Process 4242: sglang::scheduler_TP3        Python v3.11.4 (/usr/bin/python3.11)
_STACKS_IN_LOG = re.compile(rb"Process \d{1,10}: .{1,2000}\s+(?:\S{1,150} +\| )?Python v\d")


class Owned(NamedTuple):
    """Stacks, the name of their file, and the rank that they are of, where that is known."""

    name: str
    stacks: Stacks
    rank: int | None


class StackFiles:
    """Collects stacks while files are read."""

    def __init__(self) -> None:
        self._found: list[tuple[str, Stacks]] = []
        self._told: list[Owned] = []
        """Of ranks that the text itself names."""
        self._worded: list[Owned] = []
        """Of ranks that stand above processes of py-spy."""
        self._titled: dict[tuple[str, int], int] = {}
        """By file and pid, ranks by the titles of processes."""

    def add(self, name: str, kind: FileKind, data: bytes) -> str:
        """Read a file of stacks; return the lines in it that are none. Raises UnreadableDump."""
        if kind is FileKind.PYSPY_JSON:
            stacks = parse_pyspy_json(data, native=False, paused=True)
            native = any(frame.native for frame in stacks.frames)
            self._found.append((name, stacks.model_copy(update={"native": native})))
            return ""
        text = data.decode("utf-8", "replace")
        if kind is FileKind.FAULTHANDLER:
            for rank, part in ranks_in_stacks(text):
                at = name if rank is None else f"{name}!rank_{rank}"
                self._found.append((at, parse_faulthandler(part)))
        elif kind is FileKind.GDB:
            self._found.append((name, parse_gdb_dump(text)))
        elif kind is FileKind.PYSTACK:
            self._found.append((name, parse_pystack_dump(text)))
        elif kind is FileKind.GROUPED_STACKS:
            self._add_groups(name, text)
        else:
            self._add_processes(name, text)
            return "\n".join(lines_beside(text))
        return ""

    def cut_out_of_log(self, name: str, data: bytes) -> bytes:
        """Take the stacks that a log holds; return the log without them. Raises UnreadableDump."""
        if _STACKS_IN_LOG.search(data) is None:
            return data
        dumps, rest = cut_out_of_log(data.decode("utf-8", "replace"))
        self._add_processes(name, dumps)
        return rest.encode()

    def owned(self, by_pid: Mapping[int, int]) -> Iterator[Owned]:
        """Yield all stacks; `by_pid`: the processes that snapshots know."""
        yield from self._told
        often = Counter(each.rank for each in self._worded)  # of several nodes, local ranks may be meant
        for each in self._worded:
            yield each if often[each.rank] == 1 else each._replace(rank=by_pid.get(each.stacks.pid or 0))
        of_files = Counter(name for name, _ in self._found)
        titled = self._titled if len(set(self._titled.values())) == len(self._titled) else {}  # else of several servers
        for name, stacks in self._found:
            alone = of_files[name] == 1  # the number of a file with several processes is the rank of none of them
            rank = rank_of_stacks(name, stacks, by_pid) if alone else by_pid.get(stacks.pid or 0)
            yield Owned(name, stacks, titled.get((name, stacks.pid or 0), rank))

    def _add_processes(self, name: str, text: str) -> None:
        parts = ranks_in_processes(text)
        for rank, part in parts:
            if rank is None and len(parts) > 1 and not holds_process(part):
                continue  # words above the first of several
            first, *others = parse_pyspy_processes(part)
            if rank is None:
                self._found.append((name, first))
            else:  # of a rank that has children, it comes first
                self._worded.append(Owned(f"{name}!rank_{rank}", first, rank))
            self._found += [(name, stacks) for stacks in others]
        self._titled.update({(name, pid): rank for pid, rank in ranks_by_title(text).items()})

    def _add_groups(self, name: str, text: str) -> None:
        for group in parse_grouped_stacks(text):
            ranks = group.ranks or (None,)
            self._told += [Owned(name, group.stacks, rank) for rank in ranks]
