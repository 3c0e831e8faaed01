"""Bearer tokens: what a line of their file says, who passes, and who may listen where."""

import os
from pathlib import Path

import httpx
import pytest
from fastapi import Depends, FastAPI

from shared.errors import InvalidSettings
from shared.server.access import UNBOUND, Access, parse_token_line
from shared.server.problem_handlers import install_problem_handlers
from shared.server.tokens import TokenFile, require_safe_binding, require_token


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A file with two tokens."""
    path = tmp_path / "tokens"
    path.write_text("# ours\nfirst-token\n\n  second-token  \n")
    path.chmod(0o600)
    return path


async def answered(path: Path | None, header: str | None) -> httpx.Response:
    """What a service says that asks for a token."""
    app = FastAPI(dependencies=[Depends(require_token(path))])
    install_problem_handlers(app)
    app.get("/")(lambda: "in")
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
        return await client.get("/", headers=headers)


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
    assert (await answered(tokens, header)).status_code == expected


@pytest.mark.anyio
async def test_without_a_file_all_pass() -> None:
    """On loopback the machine's users are trusted by default."""
    assert (await answered(None, None)).status_code == 200


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
    """It is told as the service's error, not as the caller's; where it lay is for the service's own log."""
    answer = await answered(tmp_path / "none", "Bearer x")
    assert answer.status_code == 500
    assert str(tmp_path) not in answer.text


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
    for allowed in (0o600, 0o640, 0o400, 0o440):  # as the deployment, systemd and Kubernetes hand it over
        tokens.chmod(allowed)
        assert file.knows(b"first-token")
    tokens.chmod(mode)
    with pytest.raises(InvalidSettings, match="accessible to others") as caught:
        file.knows(b"first-token")
    assert "chmod" in caught.value.advice


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


@pytest.mark.parametrize("listen", ["0.0.0.0:8471", "node1:8471"])
def test_client_certificates_stand_for_a_token(listen: str) -> None:
    """Who shows one is known."""
    require_safe_binding(listen, None, client_certificates=True)


@pytest.mark.parametrize(
    ("line", "access"),
    [
        (b"tok", UNBOUND),
        (b"tok may=look", UNBOUND),
        (b"tok may=read", Access(may_look=False)),
        (b"tok users=1001,c0", Access(users=frozenset({"1001", "c0"}))),
        (b"tok users=root", Access(users=frozenset({"0"}))),
        (b"tok\tnamespaces=team-a  may=read", Access(namespaces=frozenset({"team-a"}), may_look=False)),
    ],
)
def test_line_says_what_its_token_may_do(line: bytes, access: Access) -> None:
    """A line of nothing but a token is what it has always been."""
    assert parse_token_line(line) == (b"tok", access)


def test_token_of_several_words_is_the_whole_line() -> None:
    """As it was before tokens could be bound."""
    assert parse_token_line(b"the second") == (b"the second", UNBOUND)


@pytest.mark.parametrize(
    "words",
    [
        b"user=1001",
        b"users=",
        b"users=1001 users=1002",
        b"users=no-such-user-here",
        b"namespaces=Team_A",
        b"namespaces=a,",
        b"may=write",
        b"# user=1001",
        "users=²".encode(),
    ],
)
def test_what_cannot_be_read_binds_nobody_to_too_little(words: bytes) -> None:
    """It is refused, rather than taken for a token that may do everything; and no token is in the message."""
    with pytest.raises(InvalidSettings) as refused:
        parse_token_line(b"s3cret " + words)
    assert "s3cret" not in str(refused.value) + refused.value.advice


@pytest.mark.parametrize(
    ("access", "user", "namespaces", "seen"),
    [
        (UNBOUND, None, (), True),
        (Access(users=frozenset({"1001"})), "1001", (), True),
        (Access(users=frozenset({"1001"})), "c1001", (), False),
        (Access(users=frozenset({"1001"})), None, (), False),
        (Access(namespaces=frozenset({"a"})), "0", ("a", "a"), True),
        (Access(namespaces=frozenset({"a"})), "0", ("a", None), False),
        (Access(namespaces=frozenset({"a"})), "0", ("a", "b"), False),
        (Access(namespaces=frozenset({"a"})), "0", (), False),
        (Access(users=frozenset({"0"}), namespaces=frozenset({"a"})), "0", ("b",), False),
    ],
)
def test_what_is_not_known_is_not_allowed(access: Access, user: str | None, namespaces: tuple[str], seen: bool) -> None:
    """Each bound holds by itself."""
    assert access.sees(user, namespaces) is seen


def test_service_that_cannot_hold_tokens_to_their_bounds_refuses_them(tmp_path: Path) -> None:
    """An agent answers for all jobs of its node: a token that is bound there would be bound in name alone."""
    file = tmp_path / "tokens"
    file.write_text("one\ntwo users=1001\n")
    file.chmod(0o600)
    assert TokenFile(file).tokens() == (b"one", b"two")
    assert TokenFile(file).access_of(b"two") == Access(users=frozenset({"1001"}))
    assert TokenFile(file).access_of(b"two users=1001") is None
    with pytest.raises(InvalidSettings, match="binds a token"):
        TokenFile(file, may_bind=False).tokens()
