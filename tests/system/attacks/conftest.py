"""What the attacks share: a folder for programs, the agent asked two ways, and services that ask for a token."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared.wire.snapshot import NodeSnapshot
from tests.build.services.services import Service, write_token
from tests.system.attacks.programs import AGENTS
from tests.system.attacks.served import GUARDED, KINDS, TOKEN, serve


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


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one token that is known."""
    return write_token(tmp_path_factory.mktemp("tokens"), TOKEN)


@pytest.fixture(scope="module", params=KINDS)
def guarded(
    request: pytest.FixtureRequest, token_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, str]]:
    """A service that asks for a token, and a path that shows what it guards."""
    with serve(request.param, tmp_path_factory.mktemp(request.param), token_file=token_file) as service:
        yield service, GUARDED[request.param]
