"""A diagnosis and everything it rests on, written as one file that `--from` reads."""

import io
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from cli.sources.job_source import JudgedJob
from collector.align.expected import Expected
from collector.keep.bundle import bundle_name, write_bundle
from collector.keep.kept import Kept
from shared.answer.diagnosis import Diagnosis
from shared.errors import UnhangError
from shared.wire.snapshot import NodeSnapshot


def judged_here(diagnosis: Diagnosis, expected: Expected, snapshots: Sequence[NodeSnapshot]) -> JudgedJob:
    """Return a diagnosis that was made here, whose evidence is at hand."""
    kept = Kept(diagnosis=diagnosis, expected=expected, snapshots=tuple(snapshots))
    return JudgedJob(diagnosis, partial(_save_bundle, kept), lambda: kept)


def _save_bundle(kept: Kept, directory: Path) -> Path:
    """Write the bundle into `directory` and return its file. Raises UnhangError."""
    return write_whole(made(directory) / bundle_name(kept), lambda to: write_bundle(kept, to))


def made(directory: Path) -> Path:
    """Make a directory with all that lead to it, and return it. Raises UnhangError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(directory, error) from error
    return directory


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> Path:
    """Write a file so that it is there whole or not at all, readable by its owner alone. Raises UnhangError.

    Links are followed. What is there and is no regular file, a device or a FIFO, is written through, never replaced.
    """
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            with target.open("wb", buffering=0) as to:
                to.write(_written(write))
        else:
            _replace(target, write)
    except OSError as error:
        raise _cannot_write(path, error) from error
    return path


def _written(write: Callable[[IO[bytes]], object]) -> bytes:
    memory = io.BytesIO()
    write(memory)
    return memory.getvalue()


def _replace(target: Path, write: Callable[[IO[bytes]], object]) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".unhang-")
    try:
        with os.fdopen(handle, "wb") as to:
            write(to)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _cannot_write(path: Path, error: OSError) -> UnhangError:
    return UnhangError(f"{path} cannot be written: {error.strerror}", advice="name another place")
