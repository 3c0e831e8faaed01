"""What a rank logged before it ended: its own failure, and the last lines.

A process that has ended shows no files any more, and a traceback is written a moment before: so the files are opened
while it lives, on behalf of those who may read them, and read once it is gone. Only local ones: another's file server
may not answer.
"""

import os
import weakref
from collections.abc import Iterator
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


class LastWords(NamedTuple):
    """What a rank logged before it ended."""

    failure: LogEvent | None
    """Its last failure; None: none is known."""
    ends: tuple[LogFile, ...]
    """The last lines of each file: where others write, too, the launcher's end is there."""


def _where_raised(failure: LogEvent) -> LogEvent:
    """Return it with where it came from; its text says all else."""
    raised = {name: redact(value) for name, value in failure.fields.items() if name.startswith("raised_")}
    return failure.model_copy(update={"fields": raised})


class HeldLogs:
    """The files behind standard output and error of one rank, kept open."""

    def __init__(self, context: LookContext, rank: Rank) -> None:
        self._rank = rank.identity.rank
        self._files: dict[tuple[int, int], _Held] = {}
        opened = ExitStack()
        with suppress(Gone, NotPermitted):
            self._open(context, rank, opened)
        weakref.finalize(self, opened.close)

    def last_words(self, *, failed: bool) -> LastWords:
        """Return what the rank logged last, without secrets; of one that has not `failed`, no failure is looked for."""
        failures: list[LogEvent] = []
        ends: list[LogFile] = []
        for held, lines in self._tails():
            rank = None if held.is_shared else self._rank
            events = find_events(lines, path=held.path, rank=rank) if failed else ()
            failures += [each for each in events if each.kind in _FAILURES and each.rank == self._rank]
            kept = redact_lines([line for line in lines if line], most=_LAST_LINES)
            ends.append(
                LogFile(path=held.path, lines=tuple(line[:_LONGEST_LINE] for line in kept), shared=held.is_shared)
            )
        last = _where_raised(failures[-1]) if failures else None
        return LastWords(last, tuple(file for file in ends if file.lines))

    def _tails(self) -> Iterator[tuple[_Held, list[str]]]:
        for held in self._files.values():
            with suppress(OSError):
                lines = read_tail(held.file, _TAIL_BYTES).decode(errors="replace").split("\n")
                yield held, [clean_line(line) for line in lines if rank_of_line(line) in (None, self._rank)]

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
