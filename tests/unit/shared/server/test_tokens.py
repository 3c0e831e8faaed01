"""Bearer tokens: who passes, and who may listen where."""

import os
from pathlib import Path

import httpx
import pytest
from fastapi import Depends, FastAPI

from shared.errors import InvalidSettings
from shared.server.problem_handlers import install_problem_handlers
from shared.server.tokens import TokenFile, require_safe_binding, require_token


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
    with pytest.raises(InvalidSettings, match="contains no token"):
        require_safe_binding(listen, tmp_path / "empty")
    require_safe_binding(listen, tokens)


def test_loopback_needs_no_token() -> None:
    """The embedded default works at once."""
    require_safe_binding("127.0.0.1:8471", None)
    require_safe_binding("[::1]:0", None)


@pytest.mark.parametrize("mode", [0o604, 0o640 | 0o002, 0o660, 0o644, 0o601])
def test_file_that_others_may_read_or_change_is_no_secret(tokens: Path, mode: int) -> None:
    """It is refused with what to do, also when it is opened to others while the service runs."""
    file = TokenFile(tokens)
    assert file.knows(b"first-token")
    tokens.chmod(mode)
    with pytest.raises(InvalidSettings, match="accessible to others") as caught:
        file.knows(b"first-token")
    assert "chmod" in caught.value.advice


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o440])
def test_file_of_the_service_and_its_group(tokens: Path, mode: int) -> None:
    """As the deployment installs it, and as systemd and Kubernetes hand it over."""
    tokens.chmod(mode)
    assert TokenFile(tokens).knows(b"first-token")


@pytest.mark.root
def test_file_of_somebody_else(tokens: Path) -> None:
    """Its owner could write a token of his own into it."""
    os.chown(tokens, 61005, 0)
    with pytest.raises(InvalidSettings, match="belongs to uid 61005"):
        TokenFile(tokens).tokens()


def test_a_pipe_is_no_token_file(tmp_path: Path) -> None:
    """Opening it would wait for ever."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(InvalidSettings, match="not a plain file"):
        TokenFile(tmp_path / "pipe").tokens()


def test_a_token_is_changed_without_an_outage(tokens: Path) -> None:
    """The new one beside the old one, then without it; nobody is turned away in between."""
    file = TokenFile(tokens)
    for content, known in (("old\n", {b"old"}), ("old\nnew\n", {b"old", b"new"}), ("new\n", {b"new"})):
        (tokens.parent / "next").write_text(content)
        (tokens.parent / "next").chmod(0o600)
        os.replace(tokens.parent / "next", tokens)
        assert {token for token in (b"old", b"new", b"first-token") if file.knows(token)} == known


@pytest.mark.anyio
async def test_a_stranger_does_not_learn_where_the_tokens_lie(tmp_path: Path) -> None:
    """The path of a file that cannot be read is for the service's own log."""
    app = FastAPI(dependencies=[Depends(require_token(tmp_path / "none"))])
    install_problem_handlers(app)
    app.get("/")(lambda: "in")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
        answer = await client.get("/", headers={"Authorization": "Bearer x"})
    assert str(tmp_path) not in answer.text


@pytest.mark.parametrize("listen", ["0.0.0.0:8471", "node1:8471"])
def test_client_certificates_stand_for_a_token(listen: str) -> None:
    """Who shows one is known."""
    require_safe_binding(listen, None, client_certificates=True)
