"""Stores for tests: copies of one empty store that the collector has made, for its tables take 30 ms to make."""

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from collector.keep.store import Store


def empty_store(folder: Path) -> Path:
    """Return where a folder's store is, which is empty unless it has been there before."""
    file = folder / "store.sqlite3"
    try:
        target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return file
    with open(target, "wb") as copy:
        copy.write(_made())
    return file


@cache
def _made() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.sqlite3"
        Store(file).close()
        assert os.listdir(folder) == [file.name], "all of it is in one file"
        return file.read_bytes()
