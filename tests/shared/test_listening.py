"""Addresses to listen on."""

import pytest

from shared.errors import InvalidSettings
from shared.listening import parse_address


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
