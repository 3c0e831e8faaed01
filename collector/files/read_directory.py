"""What `--from DIR` reads: snapshots, recorder dumps, stack dumps, RAS reports, logs of ranks and of kernels become
`NodeSnapshot`s.

1. Read every file; its content shows what it is. One that cannot be read is a `Missing`, the rest is used.
2. Snapshots are used as they were taken. They say whether a job was `live`: two of them may show motion.
3. Bare files of one rank are put together. Which rank: the trailing number of a dump's name, a name such as
   `rank_3`, or the pid where a snapshot knows it. A number that may be a pid or a job's id is no rank.
4. Where the snapshots know that rank too, a bare file fills what its last look lacks; else it is a look by itself. A
   kernel log goes to the snapshots of its node.

The names of files change nothing but those ranks, their order on disk changes nothing.
"""

import hashlib
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from collector.files.kernel_files import KernelText, read_kernel_text, with_kernel_logs
from collector.files.log_files import (
    LogText,
    add_named_ranks,
    assign_logs,
    memory_of,
    read_log,
    with_world_size,
)
from collector.files.long_logs import Shortened
from collector.files.merge import BareRank, DatedSets, merge_bares
from collector.files.parallel_dumps import DumpReaders
from collector.files.pasted_files import pasted_files
from collector.files.rank_of_file import rank_of_dump
from collector.files.ras_files import RasReports, with_ras
from collector.files.sniff import FileKind, kind_of
from collector.files.stack_files import StackFiles
from collector.files.tree.bounded_file import FileTooLarge, ReadDeadline
from collector.files.tree.walk import DEFAULT_BOUNDS, Bounds, FoundFile, read_tree
from collector.files.what_was_read import Taken, files_read
from collector.keep.bundle import BUNDLE_VERSION, Manifest
from shared import SCHEMA_VERSION
from shared.answer.files_read import FileRead
from shared.errors import NotFound, UnhangError, UnreadableDump
from shared.formats.ras.text_report import LAST_HEADING
from shared.isolation import costs_itself, failures_told
from shared.json_bounds import TooCostly, check_model_json
from shared.missing import Missing, refused, unreadable
from shared.mistakes import first_mistake
from shared.value import Value
from shared.wire.snapshot import NodeSnapshot, StrayStacks
from shared.wire.trace import Trace

_MOST_MISSING = 1000
_MOST_LOOKS = 1000
_MOST_STRAYS = 4096
_MOST_MEMORY = 2 * 1024 * 1024 * 1024
"""For one snapshot while it is read: sixty megabytes of flight records."""
_LOOK_BEGINS = b'{"schema_version":'

_T = TypeVar("_T", bound=Value)


@dataclass(frozen=True)
class Recorded:
    """Everything that a directory holds."""

    snapshots: tuple[NodeSnapshot, ...]
    missing: tuple[Missing, ...]
    manifest: Manifest | None
    """Of the bundle, where the directory holds exactly one."""
    read: tuple[FileRead, ...] = ()


def read_directory(
    path: Path, *, bounds: Bounds = DEFAULT_BOUNDS
) -> tuple[tuple[NodeSnapshot, ...], tuple[Missing, ...]]:
    """Read all files below `path` and return snapshots and what could not be used.

    Raises NotFound where there are no files.
    """
    recorded = read_recorded(path, bounds=bounds)
    return recorded.snapshots, recorded.missing


def read_recorded(path: Path, *, bounds: Bounds = DEFAULT_BOUNDS) -> Recorded:
    """Read all files below `path`, or the one file that it is, such as a bundle.

    Raises NotFound where there are no files.
    """
    clock = ReadDeadline(bounds.most_seconds)
    with failures_told() as failures:
        recorded = _read_all(path, bounds, clock)
    return replace(recorded, missing=(*recorded.missing, *failures)) if failures else recorded


def _read_all(path: Path, bounds: Bounds, clock: ReadDeadline) -> Recorded:
    with DumpReaders(clock=clock) as dumps:
        reading = _Reading(bounds, dumps, clock)
        for found in read_tree(path, bounds, clock):
            reading.add(found)
        if reading.count == 0:
            raise NotFound(
                f"there are no files in {path}",
                advice="give one with snapshots (unhang snapshot -o DIR), flight-recorder dumps, py-spy dumps or logs",
            )
        return reading.finish()


class _Reading:
    """Files sorted by what they hold, while they are read."""

    def __init__(self, bounds: Bounds, dumps: DumpReaders, clock: ReadDeadline) -> None:
        self.count = 0
        self._clock = clock
        self._log_memory_left = bounds.most_log_memory
        self._dumps = dumps
        self._bounds = bounds
        self._snapshots: dict[bytes, NodeSnapshot] = {}
        self._manifests: list[Manifest] = []
        self._stacks = StackFiles()
        self._logs: list[LogText] = []
        self._ras = RasReports()
        self._strays: list[StrayStacks] = []
        self._kernel: list[KernelText] = []
        self._missing: list[Missing] = []
        self._sets = DatedSets()
        self._taken: dict[str, Taken] = {}
        self._tools: dict[str, tuple[str, ...]] = {}
        """By file, what printed the stacks in it."""

    def add(self, found: FoundFile | Missing) -> None:
        """Step 1 for one file."""
        self.count += 1
        if isinstance(found, Missing):
            self._missing.append(found)
            return
        if self._clock.left <= 0:
            self._missing.append(refused(found.name, self._clock.told))
            return
        for each in _files_in(found):
            self._add(each)

    def _add(self, found: FoundFile) -> None:
        try:
            if found.kind in _UNUSED:
                self._missing.append(unreadable(found.name, _UNUSED[found.kind]))
            elif found.kind is not FileKind.DIAGNOSIS and not self._sets.take_date(found):
                self._read(found)
                self._taken[found.name] = Taken.of(found, self._tools.get(found.name, ()))
        except (FileTooLarge, TooCostly) as error:
            self._missing.append(refused(found.name, str(error)))
        except UnhangError as error:
            self._missing.append(unreadable(found.name, str(error)))

    @costs_itself(lambda *_: None, part=lambda _, found: found.name, passing=(UnhangError,))
    def _read(self, found: FoundFile) -> None:
        match found.kind:
            case FileKind.SNAPSHOT:
                self._add_snapshot(found)
            case FileKind.MANIFEST:
                self._add_manifest(found)
            case FileKind.RECORDER:
                self._sets.add(found)
                self._dumps.add(found.name, found.data)
            case FileKind.PYSPY_JSON:
                self._stacks.add_json(found.name, found.data)
            case FileKind.RAS:
                self._add_ras(found)
            case FileKind.KERNEL:
                self._add_kernel_log(found)
            case FileKind.LOG:
                self._add_log(found)
            case FileKind.EMPTY if rank_of_dump(found.name) is not None and not found.name.endswith(_OF_TEXT):
                self._missing.append(unreadable(found.name, _EMPTY))

    def finish(self) -> Recorded:
        """Steps 2 to 4."""
        snapshots = tuple(self._snapshots[key] for key in self._snapshots)
        newest = max((each.taken_at_ns for each in snapshots if each.taken_at_ns is not None), default=time.time_ns())
        snapshots, kernel_missing = with_kernel_logs(snapshots, self._kernel, written_at=newest / 1e9)
        bares = self._bares(snapshots)
        known = bares.keys() | {rank.identity.rank for snapshot in snapshots for rank in snapshot.ranks}
        logs_only = not known
        unowned, older = assign_logs(self._logs, bares, frozenset(known), self._clock)
        if logs_only:
            add_named_ranks(bares, unowned)
        merged, left_out = merge_bares(snapshots, bares, unowned)
        merged = with_world_size(merged) if logs_only else merged
        merged = with_ras(merged, tuple(self._ras.looks(self._sets)))
        if self._strays:
            strays = tuple(self._strays[:_MOST_STRAYS])
            merged = (*merged, NodeSnapshot(host=None, live=False, strays=strays))
        manifest = self._manifests[0] if len(self._manifests) == 1 else None
        missing = _cut([*self._missing, *kernel_missing, *older, *left_out])
        return Recorded(
            merged,
            missing,
            manifest,
            files_read(self._taken, merged, {text.name: text.telling for text in self._kernel}),
        )

    def _bares(self, snapshots: tuple[NodeSnapshot, ...]) -> dict[int, BareRank]:
        """Step 3 for dumps and stacks."""
        bares: dict[int, BareRank] = defaultdict(BareRank)
        identities = [rank.identity for snapshot in snapshots for rank in snapshot.ranks]
        by_pid = {identity.pid: identity.rank for identity in identities if identity.pid is not None}
        for name, trace in self._dumps.results():
            rank = rank_of_dump(name)
            if not isinstance(trace, Trace):
                self._missing.append(unreadable(name, trace))
            elif rank is None:
                self._unnamed(name, "its name should end with the rank, as in nccl_trace_rank_3")
            else:
                bares[rank].traces[name] = trace
                bares[rank].written_ns[name] = self._sets.taken_ns(name)
        for bare in bares.values():
            for name, first in tuple(self._sets.copies(bare.traces)):
                del bare.traces[name]
                self._missing.append(refused(name, f"it holds what {first} does: {_NO_DATE}"))
        for name, stacks, rank in self._stacks.owned(by_pid):
            if rank is None:
                self._unnamed(name, "its name should contain the rank, as in stacks_rank_3.json")
                self._strays.append(StrayStacks(file=name, stacks=stacks))
            else:
                bares[rank].stacks[name] = stacks
        return bares

    def _unnamed(self, name: str, advice: str) -> None:
        self._missing.append(unreadable(name, f"its rank is unknown: {advice}"))

    def _add_snapshot(self, found: FoundFile) -> None:
        for look in _looks(found.data):
            snapshot = _validated(look, NodeSnapshot)
            if snapshot.schema_version > SCHEMA_VERSION:
                raise UnreadableDump(f"a snapshot of schema {snapshot.schema_version}, newer than {SCHEMA_VERSION}")
            self._snapshots.setdefault(hashlib.sha256(look.rstrip()).digest(), snapshot)

    def _add_manifest(self, found: FoundFile) -> None:
        manifest = _validated(found.data, Manifest)
        if manifest.unhang_bundle > BUNDLE_VERSION:
            raise UnreadableDump(f"a bundle of version {manifest.unhang_bundle}, newer than {BUNDLE_VERSION}")
        self._manifests.append(manifest)

    def _add_ras(self, found: FoundFile) -> None:
        self._ras.add(found)
        self._sets.add(found)
        beside = _after_report(found.data)
        if beside:
            self._keep_log(found.name, beside)

    def _add_kernel_log(self, found: FoundFile) -> None:
        """What stands in it beside is read as any log."""
        text = read_kernel_text(found.name, found.data)
        others, text.others = "\n".join(text.others).encode() + b"\n", []
        self._kernel.append(text)
        if len(others) > 1:
            self._keep_log(found.name, others, found.shortened)

    def _add_log(self, found: FoundFile) -> None:
        """A text has as many kinds as its parts: stacks of processes, and what stands beside them."""
        rest, self._tools[found.name] = self._stacks.cut_out(found.name, found.bare.data)
        if rest:
            self._keep_log(found.name, rest if self._tools[found.name] else found.data, found.shortened)

    def _keep_log(self, name: str, data: bytes, shortened: Shortened | None = None) -> None:
        """Keep a log until all is read: only then is known whose it is. Raises TooLarge."""
        text = read_log(name, data, shortened)
        if memory_of(text) > self._log_memory_left:
            raise FileTooLarge(
                f"left out: the logs would take more than {self._bounds.most_log_memory} bytes of memory"
            )
        self._log_memory_left -= memory_of(text)
        self._logs.append(text)


_NO_DATE = "a copy, or a second dump of a rank that stands still, which only a file `date` beside it would tell"
_OF_TEXT = (".log", ".txt", ".out", ".err")
_EMPTY = "the file is empty: its rank ended, or had no room, before its record was written"
_UNUSED = {
    FileKind.UNKNOWN_JSON: "JSON of an unknown kind",
    FileKind.BINARY: "a binary file of an unknown kind",
}
"""Kinds that are reported as missing. Finished diagnoses are skipped silently."""


def _looks(data: bytes) -> list[bytes]:
    """Return the looks in a file: one, or as many as `unhang snapshot -o - --looks N` wrote, each on a line."""
    if b"\n" not in data:
        return [data]
    first, *more = data.split(b"\n" + _LOOK_BEGINS, _MOST_LOOKS)
    return [first, *(_LOOK_BEGINS + rest for rest in more)]


def _validated(data: bytes, kind: type[_T]) -> _T:
    check_model_json(data, most_bytes=_MOST_MEMORY)
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise UnreadableDump(f"not a complete {kind.__name__}: {first_mistake(error)}") from error


@costs_itself(lambda found: [found], part=lambda found: found.name)
def _files_in(found: FoundFile) -> list[FoundFile]:
    """The file, or those that somebody pasted into it, without what hides their kinds."""
    found = _as_printed(found)
    pasted = pasted_files(found.data.decode("utf-8", "replace")) if found.kind is FileKind.LOG else {}
    parts = ((f"{found.name}!{name}" if name else found.name, text.encode()) for name, text in pasted.items())
    return [_as_printed(replace(found, name=name, data=data, kind=kind_of(data))) for name, data in parts] or [found]


def _as_printed(found: FoundFile) -> FoundFile:
    """The file without what hides its kind. A log keeps what stands before its lines: the times may be there alone."""
    return found.bare if found.kind is FileKind.LOG and found.bare.kind is not FileKind.LOG else found


def _after_report(data: bytes) -> bytes:
    """What stands below a RAS report in text and is not of it: people paste the log of the job there."""
    _, heading, below = data.partition(LAST_HEADING.encode())
    lines = below.lstrip(b"=").splitlines(keepends=True) if heading else []
    return b"".join(line for line in lines if line.strip() and line[:1] not in b" #" and b"RAS" not in line)


def _cut(missing: list[Missing]) -> tuple[Missing, ...]:
    if len(missing) <= _MOST_MISSING:
        return tuple(missing)
    more = unreadable("files", f"and {len(missing) - _MOST_MISSING} more")
    return (*missing[:_MOST_MISSING], more)
