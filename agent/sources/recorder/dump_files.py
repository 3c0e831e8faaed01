"""The flight record that PyTorch's watchdog has left in a file, when it found that an operation takes too long.

1. Where it lies, DebugInfoWriter::getWriter in torch/csrc/distributed/c10d/FlightRecorder.cpp decides: a prefix from a
   variable, else one in the user's cache folder, in /tmp before 2.5; the global rank follows.
2. Such a name is shared by all jobs of a user, often over all nodes. So a file counts only if this very process wrote
   it: one of the threads that it names is a thread of the process, which the memory at the thread's address shows.
   PyTorch names threads since 2.8.
3. It tells how far the rank was then. When that was is told with it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.find.environment import Environments
from agent.proc.job_files import open_named
from agent.proc.memory.process_memory import Unreadable, open_memory
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from agent.sources.recorder.record_bounds import bounded
from agent.tools.memory_budget import PARSED_BYTES, Memory
from shared.errors import InvalidInput, NotPermitted, UnreadableDump
from shared.formats.recorder.dump import parse_dump
from shared.formats.recorder.safe_pickle import load_plain
from shared.json_bounds import load_json
from shared.missing import Reason
from shared.wire.trace import Origin, Trace

_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_WHOLE_NAME = "TORCH_FR_DUMP_DYNAMIC_FILE_NAME"
_NAMES = frozenset({*_PREFIXES, _WHOLE_NAME, "HOME", "XDG_CACHE_HOME"})
_STEMS = ("comm_lib_trace_rank_", "nccl_trace_rank_")
_ON = frozenset({"1", "y", "yes", "t", "true"})
_LARGEST_FILE = 32 * 1024 * 1024
_MOST_RECORDS = 131_072
_MOST_THREADS = 16
_HIGHEST_ADDRESS = 1 << 56


class FoundDump(NamedTuple):
    """A record from a file."""

    trace: Trace
    written_ns: int
    """When the file was written, in Unix nanoseconds."""


def read_dump_file(procfs: ProcFs, rank: Rank, memory: Memory, deadline: Deadline) -> FoundDump | None:
    """Return the newest dump that this process has left; None where it left none.

    Raises Unavailable of one that cannot be taken, Gone or NotPermitted.
    """
    written = max(_files(procfs, rank), default=None)
    if written is None:
        return None
    written_ns, path = written
    with memory.receiving() as receipt:
        with open_named(procfs, rank.stat.pid, path, readers_of(procfs, rank.stat.pid)) as opened:
            size = os.fstat(opened).st_size
            if size > _LARGEST_FILE:
                raise Unavailable(Reason.REFUSED, f"{path} is larger than the {_LARGEST_FILE} bytes that are read")
            limit = receipt.grown(size, deadline)
            data = os.pread(opened, _LARGEST_FILE, 0)
        with memory.parsing(limit):
            _require_writer(procfs, rank, path, data, limit)
            try:
                trace = parse_dump(data, most_bytes=PARSED_BYTES, most_records=_MOST_RECORDS)
            except UnreadableDump as error:
                raise Unavailable(Reason.UNREADABLE, f"{path}: {error}") from error
            return FoundDump(bounded(trace.model_copy(update={"origin": (Origin.DUMP_FILE,)})), written_ns)


def _files(procfs: ProcFs, rank: Rank) -> Iterator[tuple[int, str]]:
    """Iterate over plain files with such a name that were written since the rank began: when, and the path."""
    for path in dict.fromkeys(_paths(Environments(procfs, _NAMES).read(rank.stat), rank.identity.rank)):
        with (
            suppress(Gone, NotPermitted, Unavailable),
            open_named(procfs, rank.stat.pid, path, readers_of(procfs, rank.stat.pid)) as opened,
        ):
            written_ns = os.fstat(opened).st_mtime_ns
            if written_ns / 1e9 >= (rank.identity.started_at or 0.0):
                yield written_ns, path


def _paths(environment: dict[str, str], rank: int) -> Iterator[str]:
    """Iterate over the names that a dump may have (step 1)."""
    prefix = next((environment[name] for name in _PREFIXES if environment.get(name)), None)
    if prefix is not None:
        yield prefix if environment.get(_WHOLE_NAME, "").lower() in _ON else f"{prefix}{rank}"
        return
    home = environment.get("HOME", "/tmp")
    for folder in (environment.get("XDG_CACHE_HOME"), f"{home}/.cache"):
        if folder is not None:
            yield from (f"{folder}/torch/{stem}{rank}" for stem in _STEMS)
    yield f"/tmp/{_STEMS[1]}{rank}"


def _require_writer(procfs: ProcFs, rank: Rank, path: str, data: bytes, deadline: Deadline) -> None:
    """Raise Unavailable unless this process wrote the dump (step 2)."""
    threads = list(islice(dict.fromkeys(_threads(data)), _MOST_THREADS))
    with open_memory(procfs, rank.stat.pid, deadline, start_ticks=rank.stat.start_ticks) as memory:
        for address in threads:
            with suppress(Unreadable):
                if memory.word(address) == address:  # tcbhead_t in glibc's sysdeps/x86_64/nptl/tls.h; musl has the same
                    return
    why = "none of the threads it names is a thread of this process" if threads else "it names no threads"
    raise Unavailable(Reason.REFUSED, f"{path} may be another job's: {why}")


def _threads(data: bytes) -> Iterator[int]:
    try:
        dump: Any = load_plain(data) if data[:1] == b"\x80" else load_json(data, most_bytes=PARSED_BYTES)
    except (UnreadableDump, InvalidInput, ValueError, RecursionError):
        return
    entries = dump.get("entries") if isinstance(dump, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        thread = entry.get("thread_id") if isinstance(entry, dict) else None
        if isinstance(thread, str) and thread.isascii() and thread.isdecimal() and len(thread) <= 20:
            address = int(thread)
            if address < _HIGHEST_ADDRESS:
                yield address
