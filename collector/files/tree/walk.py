"""Every file below a directory, within bounds, in an order that depends on names alone.

Directories come from users and hold what hostile jobs wrote: symbolic links are not followed, FIFOs and devices
not opened, sizes bounded before and after decompression, and what is left out is reported.
"""

import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from collector.files.long_logs import Shortened, shorten
from collector.files.sniff import FileKind, kind_of
from collector.files.tree.bounded_file import ByteSource, FileTooLarge, Guarded, OutOfTime, Readable, ReadDeadline
from collector.files.tree.inflating import Inflating
from collector.files.tree.tar_members import BrokenTar, members_of
from shared.errors import NotFound
from shared.formats.grouped_stacks import is_grouped
from shared.formats.line_heads import without_heads
from shared.formats.logs.parse import clean_line
from shared.formats.stack_parts import is_of_frames, may_hold_stacks
from shared.missing import Missing, Reason, refused, unreadable
from shared.value import whole

_HEAD = 65_536
_PIECE = 1024 * 1024
_MOST_FOR_HEADS = 400
"""Lines of a text."""
_LARGEST_TABLE = 8 * 1024 * 1024
"""Of a zip's table of contents, which is read at once: each entry becomes ten times its bytes."""
_LONGEST_WHY = 300
_LISTED = 4
"""Of one directory so many times as many entries as files are read: they are sorted first."""
_BROKEN_ZIP = (zipfile.BadZipFile, EOFError, zlib.error, struct.error, ValueError, LookupError, NotImplementedError)
"""What `zipfile` raises where a header lies."""


@dataclass(frozen=True)
class Bounds:
    """How much is read."""

    most_files: int = 100_000
    most_bytes: int = 256 * 1024 * 1024
    """Of one file, decompressed."""
    most_bytes_in_all: int = 4 * 1024 * 1024 * 1024
    whole_log_bytes: int = 32 * 1024 * 1024
    """A log that is larger, or has more lines than `most_log_lines`, is cut to what may matter in it."""
    most_log_lines: int = 500_000
    most_log_memory: int = 2 * 1024 * 1024 * 1024
    """For the lines of all logs together: those that come later are left out."""
    deepest: int = 64
    most_seconds: float = 300.0
    """For all files together; those that come later are left out. A thousand dumps of 2,000 records take three."""


DEFAULT_BOUNDS = Bounds()


@dataclass(frozen=True)
class FoundFile:
    """One file's content. `name` is its path below the directory; inside of an archive, `archive!member`."""

    name: str
    data: bytes
    kind: FileKind
    written_ns: int | None = None
    """Unix nanoseconds, as the file system or the archive has it; None: it does not say."""
    shortened: Shortened | None = None
    """What `data` is of, where that is not all of the file."""

    @cached_property
    def bare(self) -> "FoundFile":
        """The same text as its program printed it, where what others put before its lines hides its kind, or stacks.

        Whoever puts something before lines does so from the beginning.
        """
        lines = self.data.decode("utf-8", "replace").split("\n")
        some = lines[:_MOST_FOR_HEADS]
        first = without_heads([clean_line(line) for line in some])
        head = "\n".join(first)
        hidden = kind_of(head.encode()) is not FileKind.LOG or is_of_frames(head) or is_grouped(head)
        if first == some or not (hidden or may_hold_stacks(self.data, headed=True)):
            return self
        data = "\n".join(without_heads([clean_line(line) for line in lines])).encode()
        return replace(self, data=data, kind=kind_of(data))


def read_tree(
    root: Path, bounds: Bounds = DEFAULT_BOUNDS, clock: ReadDeadline | None = None
) -> Iterator[FoundFile | Missing]:
    """Yield every file below `root`, or `root` itself where it is a file, sorted by name.

    Raises NotFound where `root` does not exist.
    """
    try:
        root = root.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise NotFound(f"{root} does not exist", advice="name a directory with dumps, snapshots or logs") from error
    return _Reader(root, bounds, clock or ReadDeadline(bounds.most_seconds)).read()


class _Reader:
    def __init__(self, root: Path, bounds: Bounds, clock: ReadDeadline) -> None:
        self._clock = clock
        self._root = root
        self._bounds = bounds
        self._files_left = bounds.most_files
        self._bytes_left = bounds.most_bytes_in_all

    def read(self) -> Iterator[FoundFile | Missing]:
        paths = self._walk(self._root, 0) if self._root.is_dir() else iter([self._root])
        for path in paths:
            if self._files_left <= 0 or self._bytes_left <= 0:
                name = path.source if isinstance(path, Missing) else self._name(path)
                yield refused(name, "nothing was read from here on: there are too many files, or they are too large")
                return
            self._files_left -= 1
            if isinstance(path, Missing):
                yield path
            elif self._clock.left <= 0:
                yield refused(self._name(path), self._clock.told)
            else:
                yield from self._open(path)

    def _name(self, path: Path) -> str:
        return whole(path.name if path == self._root else str(path.relative_to(self._root)))

    def _walk(self, directory: Path, depth: int) -> Iterator[Path | Missing]:
        if depth > self._bounds.deepest:
            yield refused(self._name(directory), "directories are nested too deeply")
            return
        try:
            with os.scandir(directory) as entries:
                found = sorted(islice(entries, _LISTED * self._bounds.most_files), key=lambda entry: entry.name)
        except OSError as error:
            yield _failed(self._name(directory), error)
            return
        for entry in found:
            path = Path(entry.path)
            if entry.is_symlink():
                yield from self._link(path)
            elif entry.is_dir(follow_symlinks=False):
                self._files_left -= 1
                yield from self._walk(path, depth + 1)
            else:
                yield path

    def _link(self, path: Path) -> Iterator[Missing]:
        """A link to a file of this tree is met again under its own name; any other would lead out of it."""
        try:
            inside = path.resolve(strict=True).is_relative_to(self._root)
        except (OSError, RuntimeError):
            inside = False
        if not inside:
            yield refused(self._name(path), "a symbolic link out of the directory is not followed")

    def _open(self, path: Path) -> Iterator[FoundFile | Missing]:
        name = self._name(path)
        try:
            with open(path, "rb", opener=_open_regular) as opened:
                yield from self._contents(name, opened)
        except FileTooLarge as error:
            yield refused(name, str(error))
        except OSError as error:
            yield _failed(name, error)

    def _contents(self, name: str, opened: BinaryIO) -> Iterator[FoundFile | Missing]:
        head = opened.read(_HEAD)
        size = opened.seek(0, os.SEEK_END)
        opened.seek(0)
        kind = kind_of(head)
        if kind is FileKind.GZIP:
            yield from self._gzip(name, opened)
        elif kind is FileKind.TAR:
            yield from self._tar(name, opened)
        elif kind is FileKind.ZIP:
            yield from self._zip(name, opened)
        elif kind in (FileKind.LOG, FileKind.KERNEL):
            yield replace(self._log(name, opened, kind, size=size), written_ns=_written_ns(opened))
        elif size > self._bounds.most_bytes:  # it may be one large hole, which takes as long to read
            yield refused(name, f"it is larger than {self._bounds.most_bytes} bytes")
        else:
            yield FoundFile(name, self._whole(opened), kind, _written_ns(opened))

    def _whole(self, opened: Readable) -> bytes:
        """Read all of a file. Raises TooLarge. What was read in vain counts as well."""
        most = min(self._bounds.most_bytes, self._bytes_left)
        parts: list[bytes] = []
        room = most + 1
        while room > 0 and (part := opened.read(min(room, _PIECE))):
            self._clock.check()
            parts.append(part)
            room -= len(part)
            self._bytes_left -= len(part)
        if room <= 0:
            raise FileTooLarge(f"it is larger than {most} bytes")
        return b"".join(parts)

    def _log(self, name: str, opened: ByteSource, kind: FileKind, *, size: int | None = None) -> FoundFile:
        """Read a log; of a long one what may matter. Where all files together are too large, a part of it is not read:

        its beginning, where its `size` is known, else its end.
        """
        most = min(self._bounds.whole_log_bytes, self._bytes_left)
        data = opened.read(most + 1)
        if len(data) <= most and data.count(b"\n") <= self._bounds.most_log_lines:
            self._bytes_left -= len(data)
            return FoundFile(name, data, kind)
        of_kernel = kind is FileKind.KERNEL and size is not None
        unread = max(0, (size or 0) - (most if of_kernel else self._bytes_left))
        opened.seek(unread)
        if of_kernel:
            data = opened.read(most)
            found = Shortened(data, data.count(b"\n"), unread + len(data), unread > 0)
        else:
            found = shorten(opened, self._clock, most_bytes=self._bytes_left, unread=unread)
        self._bytes_left -= found.size_bytes - unread
        return FoundFile(name, found.data, kind, shortened=found)

    def _gzip(self, name: str, opened: BinaryIO) -> Iterator[FoundFile | Missing]:
        try:
            inflated = Inflating(opened, self._clock)
            is_tar = kind_of(inflated.read(1024)) is FileKind.TAR
            inflated.seek(0)
            if is_tar:
                yield from self._tar(name, inflated)
                return
        except (EOFError, zlib.error):
            pass  # reported by the attempt that follows
        yield self._inflated(name, opened)

    def _tar(self, name: str, opened: ByteSource) -> Iterator[FoundFile | Missing]:
        guarded = Guarded(opened, self._bounds.most_bytes, self._bytes_left, self._clock)
        try:
            for member in members_of(guarded):
                self._count_file()
                if member.is_file:
                    found = self._member(f"{name}!{member.name}", _Part(guarded, member.size))
                    if isinstance(found, FoundFile) and member.written_ns > 0:
                        found = replace(found, written_ns=member.written_ns)
                    yield found
                elif not member.is_directory:
                    yield refused(f"{name}!{member.name}", "only plain files of an archive are read")
        except (BrokenTar, EOFError, zlib.error) as error:
            yield unreadable(name, f"the archive is broken or cut off: {error}"[:_LONGEST_WHY])

    def _count_file(self) -> None:
        self._files_left -= 1
        if self._files_left < 0:
            raise FileTooLarge(f"there are too many files; at most {self._bounds.most_files} are read")

    def _zip(self, name: str, opened: BinaryIO) -> Iterator[FoundFile | Missing]:
        guarded = Guarded(opened, _LARGEST_TABLE, 1 << 62, self._clock)
        try:
            with zipfile.ZipFile(guarded) as archive:
                for member in sorted(archive.infolist(), key=lambda info: info.filename):
                    self._count_file()
                    if not member.is_dir():
                        yield self._zip_member(f"{name}!{member.filename}", archive, member)
        except _BROKEN_ZIP as error:
            yield unreadable(name, f"the archive is broken or cut off: {error}"[:_LONGEST_WHY])

    def _zip_member(self, name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> FoundFile | Missing:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return unreadable(name, "it is compressed in a way that is not read; unpack it")
        try:
            with archive.open(member) as extracted:
                return self._member(name, extracted)
        except RuntimeError as error:  # encrypted; RecursionError and NotImplementedError are of this kind, too
            return unreadable(name, str(error)[:_LONGEST_WHY])

    def _member(self, name: str, opened: Readable) -> FoundFile | Missing:
        """Return what came out of an archive; a compressed file within is inflated, an archive within is not read."""
        try:
            data = self._whole(opened)
            if kind_of(data) is FileKind.GZIP:
                return self._inflated(name, io.BytesIO(data))
        except OutOfTime:
            raise
        except FileTooLarge as error:
            return refused(name, str(error))
        return _member(name, data)

    def _inflated(self, name: str, opened: BinaryIO) -> FoundFile | Missing:
        name = name.removesuffix(".gz")
        try:
            inflated = Inflating(opened, self._clock)
            kind = kind_of(inflated.read(_HEAD))
            inflated.seek(0)
            if kind in (FileKind.LOG, FileKind.KERNEL):
                return self._log(name, inflated, kind)
            return _member(name, self._whole(inflated))
        except (EOFError, zlib.error) as error:
            return unreadable(name, f"the compression is corrupt or cut off: {error}"[:_LONGEST_WHY])


class _Part:
    """What is left of one member while it is read."""

    def __init__(self, archive: ByteSource, size: int) -> None:
        self._archive = archive
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        wanted = min(size, self._left)
        data = self._archive.read(wanted)
        self._left -= len(data)
        if len(data) < wanted:
            raise EOFError("it ends early")
        return data


def _member(name: str, data: bytes) -> FoundFile | Missing:
    kind = kind_of(data)
    if kind in (FileKind.GZIP, FileKind.TAR, FileKind.ZIP):
        return refused(name, "an archive inside of an archive is not read; unpack it")
    return FoundFile(name, data, kind)


def _written_ns(opened: BinaryIO) -> int:
    return os.fstat(opened.fileno()).st_mtime_ns


def _open_regular(path: str, flags: int) -> int:
    """Open without following a link or waiting for a FIFO's writer, and only what is a plain file."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileTooLarge("it is no plain file: a FIFO, socket or device is not read")
    return descriptor


def _failed(name: str, error: OSError) -> Missing:
    reason = Reason.NOT_PERMITTED if isinstance(error, PermissionError) else Reason.UNREADABLE
    return Missing(source=name, reason=reason, detail=error.strerror or str(error))
