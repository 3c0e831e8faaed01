"""Healthy jobs that other projects ship."""

from collections.abc import Iterator
from pathlib import Path

from tests.system.live.healthy.programs import Program


def others(repositories: Path) -> Iterator[Program]:
    """Give each."""
    yield from ()
