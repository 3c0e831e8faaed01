"""What a line of a token file says about its token, and what follows from it."""

from pathlib import Path

import pytest

from shared.errors import InvalidSettings
from shared.server.access import UNBOUND, Access, parse_token_line
from shared.server.tokens import TokenFile


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
