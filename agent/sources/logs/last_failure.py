"""What a rank logged before it ended: its own failure, and the last lines.

A process that has ended shows no files any more, and a traceback is written a moment before: so the files are opened
while it lives, on behalf of those who may read them, and read once it is gone. Only local ones: another's file server
may not answer.
"""

import os
import weakref
from contextlib import ExitStack, suppress
from typing import NamedTuple

from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.job_files import open_held, read_tail
from agent.proc.mounts import is_remote
from agent.proc.on_behalf_of import readers_of
from agent.sources.fds import describe
from agent.sources.logs.log_growth import outputs_of
from agent.sources.logs.stream_ends import STREAMS
from agent.sources.look_context import LookContext
from shared.errors import NotPermitted
from shared.formats.logs.parse import clean_line, find_events
from shared.formats.logs.writers import rank_of_line
from shared.redaction.redact import redact, redact_lines
from shared.wire.log_events import EventKind, LogEvent, LogFile

_TAIL_BYTES = 64 * 1024
_LAST_LINES, _LONGEST_LINE = 40, 300
_FAILURES = frozenset({EventKind.EXCEPTION, EventKind.OUT_OF_MEMORY, EventKind.DEVICE_ERROR})


class _Held(NamedTuple):
    file: int
    path: str
    is_shared: bool
    """Does the launcher write into it as well? Then only lines that name the rank are its own."""


class HeldLogs:
    """The files behind standard output and error of one rank, kept open."""

    def __init__(self, context: LookContext, rank: Rank) -> None:
        self._rank = rank.identity.rank
        self._files: dict[tuple[int, int], _Held] = {}
        opened = ExitStack()
        with suppress(Gone, NotPermitted):
            self._open(context, rank, opened)
        weakref.finalize(self, opened.close)

    def last_failure(self) -> LogEvent | None:
        """Return the last failure that the rank logged, without secrets; None: none is known."""
        found: list[LogEvent] = []
        for held in self._files.values():
            with suppress(OSError):
                events = find_events(self._own(held), path=held.path, rank=None if held.is_shared else self._rank)
                found += [each for each in events if each.kind in _FAILURES and each.rank == self._rank]
        return found[-1].model_copy(update={"fields": {}}) if found else None  # its text says it all

    def ends(self) -> tuple[LogFile, ...]:
        """Return the last lines of each file without secrets: where others write, too, the launcher's end is there."""
        found: list[LogFile] = []
        for held in self._files.values():
            with suppress(OSError):
                lines = redact_lines([line for line in self._own(held) if line], most=_LAST_LINES)
                cut = tuple(line[:_LONGEST_LINE] for line in lines)
                found.append(LogFile(path=held.path, lines=cut, shared=held.is_shared))
        return tuple(file for file in found if file.lines)

    def _own(self, held: _Held) -> list[str]:
        lines = read_tail(held.file, _TAIL_BYTES).decode(errors="replace").split("\n")
        return [clean_line(line) for line in lines if rank_of_line(line) in (None, self._rank)]

    def _open(self, context: LookContext, rank: Rank, opened: ExitStack) -> None:
        procfs, pid = context.procfs, rank.stat.pid
        readers, shared = readers_of(procfs, pid), outputs_of(procfs, rank.stat.parent_pid)
        for each in (describe(context, pid, fd) for fd in STREAMS):
            if each is None or each.kind != "file" or is_remote(each.file_system):
                continue
            with suppress(Gone, NotPermitted, Unavailable, OSError):
                file = opened.enter_context(open_held(procfs, pid, each.fd, readers))
                found = os.fstat(file)
                held = _Held(file, redact(each.target), each.target in shared)
                self._files.setdefault((found.st_dev, found.st_ino), held)
