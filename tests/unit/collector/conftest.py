"""What tests of the collector share: a place for its store, on each kind of database."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from collector.keep.store import Store
from tests.build.processes.nursery import Nursery, open_nursery
from tests.build.services.postgres import Postgres, find_binaries, running_postgres
from tests.build.services.stores import empty_database, empty_store


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests that want one."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("needs PostgreSQL's server programs (Debian: postgresql)")
    with running_postgres(binaries) as server:
        yield server


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """One process that has imported the collector, for all tests that start some."""
    with open_nursery() as nursery:
        yield nursery


_KINDS = ("sqlite", "postgresql")


@pytest.fixture(params=_KINDS)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is not there yet, as the setting `store` names it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.sqlite3"
    server = request.getfixturevalue("postgres")
    assert isinstance(server, Postgres)
    return server.new_database()


@pytest.fixture(params=_KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that has its tables, and nothing in them."""
    if request.param == "sqlite":
        return f"sqlite:///{empty_store(tmp_path)}"
    server = request.getfixturevalue("postgres")
    assert isinstance(server, Postgres)
    return empty_database(server)


Opener = Callable[..., Store]
"""Opens the store of a test; what it is called with is the store's. Each call is another replica."""


@pytest.fixture
def opened(place: str) -> Iterator[Opener]:
    """Open stores, and close them in the end: a connection left open is a warning, and warnings are errors."""
    with ExitStack() as stack:

        def opened(**more: Any) -> Store:
            return stack.enter_context(closing(Store(place, **more)))

        yield opened
