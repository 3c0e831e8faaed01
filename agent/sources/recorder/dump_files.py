"""The flight record that PyTorch's watchdog has left in a file, when it found that an operation takes too long.

1. Where it lies, DebugInfoWriter::getWriter in torch/csrc/distributed/c10d/FlightRecorder.cpp decides: a prefix from a
   variable, else one in the user's cache folder, in /tmp before 2.5; the global rank follows.
2. Anybody may write a file of such a name in /tmp. So it counts only if it belongs to the rank's user, and nobody else
   can have written it (`job_files.py`).
3. Such a name is shared by all jobs of a user, often over all nodes. So a file counts only if this very process wrote
   it: one of the threads that it names is a thread of the process, which the memory at the thread's address shows.
   That a word points to itself is not enough: the data of an interpreter hold such words at addresses that are the same
   in every process. PyTorch names threads since 2.8.
4. It tells how far the rank was then. When that was is told with it.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from itertools import islice
from typing import Any, NamedTuple

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.find.environment import Environments
from agent.find.process_owner import owner_of
from agent.proc.job_files import open_named
from agent.proc.memory.process_memory import ProcessMemory, Unreadable, open_memory
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from agent.sources.recorder.record_bounds import bounded
from agent.tools.memory_budget import PARSED_BYTES, Memory
from shared.errors import InvalidInput, NotPermitted, UnreadableDump
from shared.formats.recorder.dump import parse_dump
from shared.formats.recorder.safe_pickle import load_plain
from shared.json_bounds import load_json
from shared.missing import Reason
from shared.wire.setup import is_yes
from shared.wire.trace import Origin, Trace

_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_WHOLE_NAME = "TORCH_FR_DUMP_DYNAMIC_FILE_NAME"
_NAMES = frozenset({*_PREFIXES, _WHOLE_NAME, "HOME", "XDG_CACHE_HOME"})
_STEMS = ("comm_lib_trace_rank_", "nccl_trace_rank_")
_LARGEST_FILE = 32 * 1024 * 1024
_MOST_RECORDS = 131_072
_MOST_THREADS = 16
_HIGHEST_ADDRESS = 1 << 56
_GLIBC_SELF, _GLIBC_TID = 16, 720
"""Where glibc has a thread's second pointer to itself and its number, on x86-64: `self` of tcbhead_t in
sysdeps/x86_64/nptl/tls.h, `tid` of struct pthread in nptl/descr.h, the same since 2.4."""


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
    path = written[1]
    with memory.receiving() as receipt:
        with _opened(procfs, rank, path) as opened:
            found = os.fstat(opened)
            size, written_ns = found.st_size, found.st_mtime_ns
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
            _opened(procfs, rank, path) as opened,
        ):
            written_ns = os.fstat(opened).st_mtime_ns
            if written_ns / 1e9 >= (rank.identity.started_at or 0.0):
                yield written_ns, path


def _opened(procfs: ProcFs, rank: Rank, path: str) -> AbstractContextManager[int]:
    """Open a file that the rank's user alone can have written (step 2). Raises Gone, NotPermitted or Unavailable."""
    pid = rank.stat.pid
    readers, owner = readers_of(procfs, pid), owner_of(procfs, pid)
    return open_named(procfs, pid, path, readers, owners=frozenset(() if owner is None else (owner,)))


def _paths(environment: dict[str, str], rank: int) -> Iterator[str]:
    """Iterate over the names that a dump may have (step 1)."""
    prefix = next((environment[name] for name in _PREFIXES if environment.get(name)), None)
    if prefix is not None:
        yield prefix if is_yes(environment.get(_WHOLE_NAME)) else f"{prefix}{rank}"
        return
    home = environment.get("HOME", "/tmp")
    for folder in (environment.get("XDG_CACHE_HOME"), f"{home}/.cache"):
        if folder is not None:
            yield from (f"{folder}/torch/{stem}{rank}" for stem in _STEMS)
    yield f"/tmp/{_STEMS[1]}{rank}"


def _require_writer(procfs: ProcFs, rank: Rank, path: str, data: bytes, deadline: Deadline) -> None:
    """Raise Unavailable unless this process wrote the dump (step 3)."""
    pid = rank.stat.pid
    threads = list(islice(dict.fromkeys(_threads(data)), _MOST_THREADS))
    ids = frozenset(procfs.inner_pid(pid, tid) for tid in procfs.tids(pid))
    with open_memory(procfs, rank.stat, deadline) as memory:
        if any(_is_thread(memory, address, ids) for address in threads):
            return
    why = "none of the threads it names is a thread of this process" if threads else "it names no threads"
    raise Unavailable(Reason.REFUSED, f"{path} may be another job's: {why}")


def _is_thread(memory: ProcessMemory, address: int, ids: frozenset[int]) -> bool:
    """Does a living thread's descriptor lie there? Both pointers to itself, and the thread's number, tell."""
    with suppress(Unreadable):
        if memory.word(address) != address:
            return False
        if memory.word(address + _GLIBC_SELF) == address:
            return memory.word(address + _GLIBC_TID) & 0xFFFF_FFFF in ids
    return False


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
