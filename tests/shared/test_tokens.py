"""Bearer tokens: who passes, and who may listen where."""

import os
from pathlib import Path

import httpx
import pytest
from fastapi import Depends, FastAPI

from shared.errors import InvalidSettings
from shared.problems import install_problem_handlers
from shared.tokens import TokenFile, require_safe_binding, require_token


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A file with two tokens."""
    path = tmp_path / "tokens"
    path.write_text("# ours\nfirst-token\n\n  second-token  \n")
    path.chmod(0o600)
    return path


async def status(path: Path | None, header: str | None) -> int:
    """Ask a service that asks for a token."""
    app = FastAPI(dependencies=[Depends(require_token(path))])
    install_problem_handlers(app)
    app.get("/")(lambda: "in")
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
        return (await client.get("/", headers=headers)).status_code


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer first-token", 200),
        ("bearer second-token", 200),
        ("Bearer third-token", 401),
        ("Bearer ", 401),
        ("Bearer # ours", 401),
        ("Basic first-token", 401),
        ("first-token", 401),
        (None, 401),
        ("Bearer first-token\u00e4", 401),
    ],
)
async def test_only_known_tokens_pass(tokens: Path, header: str | None, expected: int) -> None:
    """Any other is answered like none at all."""
    assert await status(tokens, header) == expected


@pytest.mark.anyio
async def test_without_a_file_all_pass() -> None:
    """On loopback the machine's users are trusted by default."""
    assert await status(None, None) == 200


def test_changed_file_is_read_again(tokens: Path) -> None:
    """A token is withdrawn without a restart."""
    file = TokenFile(tokens)
    assert file.knows(b"first-token")
    tokens.write_text("other\n")
    os.utime(tokens, ns=(1, 1))
    assert not file.knows(b"first-token")
    assert file.knows(b"other")


@pytest.mark.anyio
async def test_file_that_vanished_lets_nobody_in(tmp_path: Path) -> None:
    """It is told as the service's error, not as the caller's."""
    assert await status(tmp_path / "none", "Bearer x") == 500


@pytest.mark.parametrize("listen", ["0.0.0.0:8471", "[::]:8471", "node1:8471", "10.1.2.3:8471"])
def test_nobody_listens_beyond_loopback_without_a_token(listen: str, tokens: Path, tmp_path: Path) -> None:
    """The error says what to set."""
    with pytest.raises(InvalidSettings) as caught:
        require_safe_binding(listen, None)
    assert "--token-file" in caught.value.advice
    (tmp_path / "empty").write_text("# nothing\n")
    (tmp_path / "empty").chmod(0o600)
    with pytest.raises(InvalidSettings, match="holds no token"):
        require_safe_binding(listen, tmp_path / "empty")
    require_safe_binding(listen, tokens)


def test_loopback_needs_no_token() -> None:
    """The embedded default works at once."""
    require_safe_binding("127.0.0.1:8471", None)
    require_safe_binding("[::1]:0", None)
