"""What the attacks on the services share: a token, and a service that asks for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.served import GUARDED, KINDS, TOKEN, serve
from tests.shared.services import Service


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one token that is known."""
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.touch(mode=0o600)
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture(scope="module", params=KINDS)
def guarded(
    request: pytest.FixtureRequest, token_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, str]]:
    """A service that asks for a token, and a path that shows what it guards."""
    with serve(request.param, tmp_path_factory.mktemp(request.param), token_file=token_file) as service:
        yield service, GUARDED[request.param]
