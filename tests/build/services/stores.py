"""Stores for tests: copies of one empty store that the collector has made, for its tables take 30 ms to make."""

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from collector.keep.store import Store
from tests.build.services.postgres import Postgres


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


def empty_database(server: Postgres) -> str:
    """Return the URL of an empty store in a database of its own."""
    return server.new_database(like=_made_in(server))


@cache
def _made_in(server: Postgres) -> str:
    url = server.new_database()
    Store(url).close()
    return url


@cache
def _made() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "store.sqlite3"
        Store(file).close()
        assert os.listdir(folder) == [file.name], "all of it is in one file"
        return file.read_bytes()
