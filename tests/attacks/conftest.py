"""Fixtures of the attacks."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared.snapshot import NodeSnapshot
from tests.attacks.programs import AGENTS


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter, where programs may have set-user-ID."""
    made = Path(tempfile.mkdtemp(prefix="attack-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=AGENTS)
def ask(request: pytest.FixtureRequest) -> Callable[[], NodeSnapshot]:
    """Ask an agent of root's, and one with its unit's rights."""
    return AGENTS[request.param]
