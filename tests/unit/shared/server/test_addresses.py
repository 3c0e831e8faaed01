"""Addresses to listen on."""

import pytest

from shared.errors import InvalidSettings
from shared.server.addresses import parse_address, parse_authority, parse_hosts


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:8471", "127.0.0.1", 8471, True),
        ("127.5.5.5:1", "127.5.5.5", 1, True),
        ("localhost:8471", "localhost", 8471, True),
        ("[::1]:8471", "::1", 8471, True),
        ("0.0.0.0:0", "0.0.0.0", 0, False),
        ("[::]:8471", "::", 8471, False),
        ("node1.example:8471", "node1.example", 8471, False),
    ],
)
def test_addresses(text: str, host: str, port: int, loopback: bool) -> None:
    """They are written again as they were read."""
    address = parse_address(text)
    assert (address.host, address.port, address.is_loopback, str(address)) == (host, port, loopback, text)


@pytest.mark.parametrize("text", ["", "8471", ":8471", "node1", "node1:", "::1:8471", "a:70000", "a:b", "a b:1", "a:١"])
def test_what_is_no_address(text: str) -> None:
    """The error quotes it."""
    with pytest.raises(InvalidSettings, match="not an address"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("Node1.Example.:8471", "node1.example", 8471),
        ("127.0.0.1", "127.0.0.1", None),
        ("[0:0::1]:", "::1", None),
        ("[FE80::1]:0", "fe80::1", 0),
    ],
)
def test_authorities(text: str, host: str, port: int | None) -> None:
    """One host has one spelling, whoever names it."""
    assert parse_authority(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["", ":80", "::1", "a b", "a/b", "a?", "u@a", "a:b", "a:1:2", "[::1", "a,b", "\xe9", "a\n"]
)
def test_what_is_no_authority(text: str) -> None:
    """It stands for no host, and least of all for one that is a part of it."""
    assert parse_authority(text) is None


def test_lists_of_hosts() -> None:
    """Names, and addresses with or without brackets; the empty list is one."""
    given = " Unhang.Example, 10.1.2.3 ::1,[fd00::0:7],\n"
    assert parse_hosts(given) == {"unhang.example", "10.1.2.3", "::1", "fd00::7"}
    assert parse_hosts("") == frozenset()


@pytest.mark.parametrize("word", ["*", "*.example", "a:80", "[::1]:80", "http://a", "a/b", "b\xfcro.example"])
def test_what_is_no_list_of_hosts(word: str) -> None:
    """A port would never be compared, and no page's name is like another one's."""
    with pytest.raises(InvalidSettings, match="is not a host name"):
        parse_hosts(f"a.example,{word}")
