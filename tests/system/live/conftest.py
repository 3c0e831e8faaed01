"""What live tests share."""

from collections.abc import Iterator

import pytest

from tests.system.e2e.hosts import container


@pytest.fixture(name="container")
def _container() -> Iterator[int]:
    """A container for each test, by its first process: other tests' jobs are none of it, and nobody there sees them."""
    with container() as first:
        yield first
