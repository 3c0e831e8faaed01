"""A diagnosis and everything it rests on, written as one file that `--from` reads."""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from collector.diagnose.expected import Expected
from shared.diagnosis import Diagnosis
from shared.errors import UnhangError
from shared.snapshot import NodeSnapshot


def save_bundle(directory: Path, diagnosis: Diagnosis, expected: Expected, snapshots: Sequence[NodeSnapshot]) -> Path:
    """Write the bundle into `directory` and return its file. Raises UnhangError."""
    from collector.bundles import bundle_name, write_bundle
    from collector.store import Kept

    kept = Kept(diagnosis=diagnosis, expected=expected, snapshots=tuple(snapshots))
    return write_whole(directory / bundle_name(kept), lambda to: write_bundle(kept, to))


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> Path:
    """Write a file so that it is there whole or not at all, readable by its owner alone. Raises UnhangError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".unhang-")
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        with os.fdopen(handle, "wb") as to:
            write(to)
        os.replace(name, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise _cannot_write(path, error) from error
        raise
    return path


def _cannot_write(path: Path, error: OSError) -> UnhangError:
    return UnhangError(f"{path} cannot be written: {error.strerror}", advice="name another place")
