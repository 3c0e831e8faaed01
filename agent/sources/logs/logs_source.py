"""The source `logs`: the ends of a rank's log files, and the events found in them.

Looked at are the files behind descriptors 1 and 2, or behind the pipes that these are (stream_ends.py, pod_logs.py),
NCCL's debug file, and what torchrun keeps beside its error file. One file may be shared by all ranks of a node: then
only lines that do not name another rank are this rank's, and a line that names none belongs to nobody in particular.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.find.process_owner import owner_of
from agent.proc.job_files import open_held, open_named, read_tail
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from agent.sources.logs.log_growth import outputs_of
from agent.sources.logs.pod_logs import pod_logs
from agent.sources.logs.stream_ends import STREAMS, stream_ends
from agent.sources.look_context import LookContext
from agent.sources.source import Answer, LookDepth
from shared.errors import NotPermitted, UnhangError
from shared.formats.logs.nccl_calls import find_communicators
from shared.formats.logs.parse import clean_line, find_events
from shared.formats.logs.writers import rank_of_line
from shared.missing import Reason
from shared.redaction.redact import redact, redact_lines
from shared.value import whole_texts
from shared.wire.log_events import EventKind, LogEvent, LogFile, Logs
from shared.wire.nccl_calls import LoggedCommunicator

_TAIL_BYTES = 256 * 1024
_HEAD_BYTES = 128 * 1024
"""Where NCCL tells which communicators it makes; the calls on them stand at the end."""
_SHOWN_LINES = 40
_MOST_LINES = 2000
_LONGEST_LINE = 2000
_MOST_EVENTS = 200
_MOST_NETWORKS = 16


class _Log(NamedTuple):
    path: str
    open: Callable[[], AbstractContextManager[int]]
    shared: bool
    """Do other processes of the job write into it as well?"""


class LogsSource:
    """Fills `logs`."""

    name = "logs"

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        files: dict[tuple[int, int], LogFile] = {}
        events: list[LogEvent] = []
        communicators: list[LoggedCommunicator] = []
        refusals: list[UnhangError] = []
        for log in _logs_of(rank, context):
            try:
                with log.open() as opened:
                    found = os.fstat(opened)
                    key = (found.st_dev, found.st_ino)
                    if key not in files:
                        ends = _read_ends(opened, found.st_size)
                        files[key], new = _read(log, ends.tail, found, rank, question)
                        events.extend((*_chosen_networks(log, ends, rank), *new))
                        communicators.extend(_communicators(log, ends, rank, context))
            except (Gone, NotPermitted, Unavailable) as error:
                refusals.append(error)
        if not files:
            raise _nothing(refusals)
        logs = Logs(
            files=tuple(files.values()), events=tuple(events[-_MOST_EVENTS:]), communicators=tuple(communicators)
        )
        return {"logs": logs}


def _nothing(refusals: list[UnhangError]) -> Unavailable:
    """Say why there is nothing to read, first of all where a file is there and may not be read.

    In words that are the same for all ranks whose output goes to the same place.
    """
    forbidden = [str(error) for error in refusals if isinstance(error, NotPermitted)]
    unfit = [str(error) for error in refusals if not isinstance(error, NotPermitted | Gone)]
    told = list(dict.fromkeys((*forbidden, *unfit)))
    detail = "standard output and error do not go to a readable file"
    reason = Reason.NOT_PERMITTED if forbidden else Reason.NOT_FOUND
    return Unavailable(reason, f"{detail} ({'; '.join(told[:3])})" if told else detail)


class _Ends(NamedTuple):
    """A file's beginning, as far as it does not belong to the end, and its end."""

    head: bytes
    tail: bytes
    whole: bool
    """Is nothing left out between them?"""


def _read_ends(opened: int, size: int) -> _Ends:
    tail = read_tail(opened, _TAIL_BYTES)
    head = os.pread(opened, max(0, min(_HEAD_BYTES, size - len(tail))), 0)
    whole = size <= len(head) + len(tail)
    return _Ends(head if whole else head.rpartition(b"\n")[0], tail, whole)


def _read(
    log: _Log, data: bytes, found: os.stat_result, rank: Rank, question: LookDepth
) -> tuple[LogFile, tuple[LogEvent, ...]]:
    own = rank.identity.rank
    lines = [clean_line(line) for line in data.decode(errors="replace").split("\n")[-_MOST_LINES:]]
    lines = [line for line in lines if line and rank_of_line(line) in (None, own)]
    events = find_events(lines, path=log.path, rank=None if log.shared else own, written_at=found.st_mtime)
    if log.path.endswith("/error.json"):
        events = (*events, *_error_file(data, log.path, own))
    most = len(lines) if question.full else _SHOWN_LINES
    file = LogFile(
        path=log.path,
        size_bytes=found.st_size,
        modified_at=found.st_mtime,
        lines=tuple(line[:_LONGEST_LINE] for line in redact_lines(lines, most=most)),
        shared=log.shared,
    )
    return file, events


def _chosen_networks(log: _Log, ends: _Ends, rank: Rank) -> tuple[LogEvent, ...]:
    """NCCL says when it begins which network it takes; nothing else that old counts."""
    lines = ends.head.decode(errors="replace").split("\n")
    early = find_events(lines, path=log.path, rank=None if log.shared else rank.identity.rank)
    return tuple(event for event in early if event.kind is EventKind.INTERFACE)[:_MOST_NETWORKS]


def _communicators(log: _Log, ends: _Ends, rank: Rank, context: LookContext) -> Iterator[LoggedCommunicator]:
    """What this rank's NCCL logs of its calls, by the log's beginning and end."""
    lines = (ends.head + b"\n" + ends.tail).decode(errors="replace").split("\n")
    own = context.procfs.inner_pid(rank.stat.pid)
    for each in find_communicators(lines, ended=ends.tail.endswith(b"\n"), whole=ends.whole):
        if each.pid == own or not log.shared:
            yield each.model_copy(update={"rank": rank.identity.rank})


def _logs_of(rank: Rank, context: LookContext) -> Iterator[_Log]:
    pid, procfs = rank.stat.pid, context.procfs
    readers, launchers = readers_of(procfs, pid), outputs_of(procfs, rank.stat.parent_pid)
    for fd in STREAMS:
        target = procfs.known_link(pid, f"fd/{fd}")
        if target is not None and target.startswith("/"):
            yield _Log(redact(target), partial(open_held, procfs, pid, fd, readers), target in launchers)
    with_launcher = not outputs_of(procfs, pid).isdisjoint(launchers)
    for end in stream_ends(context, rank):
        held = partial(open_held, procfs, end.pid, end.fd, readers)
        yield _Log(redact(end.path), held, end.is_shared or with_launcher)
    for path, named in pod_logs(procfs, pid):
        yield _Log(path, named, with_launcher)
    owner = owner_of(procfs, pid)
    writers = frozenset({0} if owner is None else {0, owner})  # a launcher may be root's
    for path in _named(rank, procfs):
        yield _Log(redact(path), partial(open_named, procfs, pid, path, readers, owners=writers), False)


def _named(rank: Rank, procfs: ProcFs) -> Iterator[str]:
    nccl = rank.environment.get("NCCL_DEBUG_FILE")
    if nccl:
        path = expand_nccl_path(nccl, host=rank.identity.host or "", pid=procfs.inner_pid(rank.stat.pid))
        yield path if path.startswith("/") else f"{procfs.link(rank.stat.pid, 'cwd')}/{path}"
    error_file = rank.environment.get("TORCHELASTIC_ERROR_FILE", "")
    if error_file.startswith("/"):
        folder = error_file.rpartition("/")[0]
        yield error_file
        yield from (f"{folder}/{name}" for name in ("stdout.log", "stderr.log"))


def expand_nccl_path(path: str, *, host: str, pid: int) -> str:
    """Fill in `%h` and `%p` of NCCL_DEBUG_FILE, as `src/debug.cc` of NCCL does."""
    values = {"%h": host, "%p": str(pid), "%%": "%"}
    return re.sub(r"%[hp%]", lambda match: values[match[0]], path)


def _error_file(data: bytes, path: str, rank: int) -> tuple[LogEvent, ...]:
    # {"message": {"message": "ValueError: no such shard", "extraInfo": {"py_callstack": "Traceback …"}}}
    try:
        message = whole_texts(json.loads(data)["message"])
        text = message["message"] if isinstance(message, dict) else message
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    if not isinstance(text, str):
        return ()
    text = redact(text)[:500]
    kind, _, detail = text.partition(":")
    fields = {"type": kind[:100], "message": detail.strip()[:300]}
    return (LogEvent(kind=EventKind.EXCEPTION, rank=rank, text=text, fields=fields, path=path),)
