"""Many recorder dumps read by as many processes as there are cores: a large job's are gigabytes of work.

The first few are read here, so that a small directory starts no process. Then each worker gets one dump at a time and
answers with its trace; a dump that kills its worker, or keeps it too long, costs itself alone. Workers know nothing
but the bytes they are sent, ignore Ctrl-C, and end with their parent, whatever ends it: their pipe ends then.
"""

import gc
import os
import re
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

import psutil

from collector.files.tree.bounded_file import ReadDeadline
from shared.errors import UnreadableDump
from shared.formats.recorder.dump import parse_dump
from shared.isolation import costs_itself
from shared.wire.trace import Trace

_AT_ONCE = 16
"""Dumps that are read in place before the first worker starts."""
_MOST_WORKERS = 8
_MOST_SECONDS = 120.0
"""For one dump: the largest that is read takes about a quarter of it on a slow machine."""

_MANY = 30
_LARGE_BYTES = 16 * 1024 * 1024
"""Larger dumps are read by a worker, one at a time."""
_MOST_MEMORY = 3 * 1024 * 1024 * 1024
"""Of a worker: the largest dump that is read takes half of it."""
# TUPLE1 to TUPLE3 or TUPLE, and then MEMOIZE, BINPUT or LONG_BINPUT. PyTorch's own pickler keeps none.
_KEPT_TUPLE = re.compile(rb"[\x85\x86\x87t](?:\x94|q|r..[\x00-\x0f]\x00)", re.DOTALL)
"""A tuple of twice a tuple of twice a tuple: as a key of a dict it takes years to hash, and nothing can stop that."""

_ENDING_SECONDS = 5.0
"""For a worker that was killed to be gone."""
_ENDINGS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})

_Parse = Callable[[bytes], Trace]


@dataclass
class _Worker:
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    slot: int = 0
    """Of the dump that it reads."""
    is_large: bool = False
    until: float = 0.0
    """`time.monotonic()` at which it has had its time."""


class DumpReaders:
    """Reads dumps in any order and gives their traces in the order in which they were added."""

    def __init__(
        self,
        parse: _Parse = parse_dump,
        *,
        workers: int | None = None,
        at_once: int = _AT_ONCE,
        clock: ReadDeadline | None = None,
    ) -> None:
        """`clock`: the time for all of them together."""
        self._parse = parse
        self._clock = clock or ReadDeadline(_MOST_SECONDS * _MANY)
        self._most = _affordable() if workers is None else workers
        self._at_once = at_once
        self._names: list[str] = []
        self._answers: dict[int, Trace | str] = {}
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        self._tables: dict[Any, Any] = {}

    def __enter__(self) -> "DumpReaders":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for worker in (*self._idle, *self._busy):
            _end(worker)
        self._idle, self._busy = [], []

    def add(self, name: str, data: bytes) -> None:
        """Read one dump, now or soon; waits while all workers are busy."""
        slot = len(self._names)
        self._names.append(name)
        if self._clock.left <= 0:
            self._answers[slot] = self._clock.told
        elif self._most < 1 or (_is_modest(data) and (slot < self._at_once or self._most < 2)):
            self._keep(slot, _answer(self._parse, data))
        else:
            self._hand_out(slot, data)

    def results(self) -> Iterator[tuple[str, Trace | str]]:
        """Wait for all, and yield each dump's name with its trace, or with why it has none."""
        while self._busy:
            self._collect()
        for slot, name in enumerate(self._names):
            yield name, self._answers[slot]

    def _hand_out(self, slot: int, data: bytes) -> None:
        is_large = len(data) > _LARGE_BYTES
        while (not self._idle and len(self._busy) >= self._most) or (is_large and any(w.is_large for w in self._busy)):
            self._collect()
        worker = self._idle.pop() if self._idle else _start(self._parse)
        worker.slot, worker.is_large = slot, is_large
        worker.until = time.monotonic() + min(_MOST_SECONDS, self._clock.left)
        self._busy.append(worker)
        try:
            worker.pipe.send_bytes(data)
        except OSError:
            self._lose(worker, "the process reading it died")

    def _collect(self) -> None:
        """Take the answers that are there; wait for the first."""
        first_end = min(worker.until for worker in self._busy)
        ready = wait([worker.pipe for worker in self._busy], max(0.0, first_end - time.monotonic()))
        for worker in tuple(self._busy):
            if worker.pipe in ready:
                self._receive(worker)
            elif worker.until <= time.monotonic():
                in_all = self._clock.left <= 0
                self._lose(worker, self._clock.told if in_all else f"reading it took longer than {_MOST_SECONDS:.0f} s")

    def _receive(self, worker: _Worker) -> None:
        try:
            self._keep(worker.slot, worker.pipe.recv())
        except (EOFError, OSError):
            self._lose(worker, "the process reading it died of it")
            return
        self._busy.remove(worker)
        self._idle.append(worker)

    def _lose(self, worker: _Worker, why: str) -> None:
        self._busy.remove(worker)
        _end(worker)
        self._keep(worker.slot, why)

    def _keep(self, slot: int, answer: Trace | str) -> None:
        """Keep an answer. Ranks of one job have equal tables: one of each is enough."""
        if isinstance(answer, Trace):
            tables = {name: getattr(answer, name) for name in ("groups", "signatures", "call_sites")}
            shared = {name: self._tables.setdefault(table, table) for name, table in tables.items()}
            answer = answer.model_copy(update=shared)
        self._answers[slot] = answer


def _affordable() -> int:
    """How many workers there may be: none beside other threads, whose locks a fork would copy as they are."""
    alone = psutil.Process().num_threads() == 1
    return min(len(os.sched_getaffinity(0)), _MOST_WORKERS) if alone else 0


def _start(parse: _Parse) -> _Worker:
    fork = get_context("fork")  # it takes milliseconds, a fresh interpreter with our imports half a second
    ours, theirs = fork.Pipe()
    process = fork.Process(target=_serve, args=(theirs, ours, parse), daemon=True, name="unhang-dump-reader")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)  # until the worker has made up its mind about them
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return _Worker(process, ours)


def _end(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join(_ENDING_SECONDS)


def _serve(pipe: "Connection[Any, Any]", parents_end: "Connection[Any, Any]", parse: _Parse) -> None:
    """The worker: answer dumps until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is notified with the same key
    for ending in _ENDINGS - {signal.SIGINT}:
        signal.signal(ending, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    parents_end.close()  # else the pipe would not end with the parent
    gc.disable()
    _bound_memory()
    try:
        while True:
            pipe.send(_answer(parse, pipe.recv_bytes()))
    except (EOFError, OSError):
        return


def _bound_memory() -> None:
    """Let this process have no more than so many bytes beside what it has from its parent."""
    _, hardest = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + _MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most if hardest < 0 else min(most, hardest), hardest))


def _is_modest(data: bytes) -> bool:
    """May it be read in place: is it small, and no pickle whose parts may contain each other endlessly?"""
    if len(data) > _LARGE_BYTES:
        return False
    return data[:1] != b"\x80" or _KEPT_TUPLE.search(data) is None


@costs_itself(lambda *_: "unhang failed to read it: a fault of unhang, please report it", part="flight records")
def _answer(parse: _Parse, data: bytes) -> Trace | str:
    try:
        return parse(data)
    except UnreadableDump as error:
        return str(error)
    except MemoryError:
        return f"reading it takes more than {_MOST_MEMORY} bytes of memory"
