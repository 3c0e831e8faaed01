"""What the attacks share: a folder for programs, the agent asked two ways, and services that ask for a token."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.build.services.services import Service, write_token
from tests.system.attacks.programs import Ask, ask_root, service_agent
from tests.system.attacks.served import GUARDED, KINDS, TOKEN, serve


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may enter, where programs may have set-user-ID."""
    made = Path(tempfile.mkdtemp(prefix="attack-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def ask_service() -> Iterator[Ask]:
    """Ask an agent with its unit's rights."""
    with service_agent() as ask:
        yield ask


@pytest.fixture(params=["root", "service"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Ask an agent of root's, and one with its unit's rights."""
    if request.param == "root":
        return ask_root
    asked: Ask = request.getfixturevalue("ask_service")
    return asked


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
