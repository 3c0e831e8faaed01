"""Where messages may go: names that lead inside, addresses that hide others, redirects."""

import socket
from pathlib import Path
from typing import Any

import pytest

from collector.notify import destinations as destinations_module
from collector.notify.destinations import Destinations, make_receiver_client
from collector.notify.outgoing import NotDelivered, Outgoing
from collector.notify.send import send
from collector.notify.slack import read_answer_of_webhook
from shared.errors import InvalidSettings
from shared.server.addresses import parse_networks
from tests.build.services.certificates import Authority
from tests.build.services.incident_receivers import ReceiverServer, served_receiver

PUBLIC = Destinations(frozenset({"hooks.example", "127.0.0.1", "localhost"}))


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1",
     "fe80::1%eth0", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::"],
)  # fmt: skip
def test_name_may_not_lead_inside(address: str) -> None:
    """Private, loopback, link-local, shared, and those in disguise."""
    assert "not public" in PUBLIC.refused("hooks.example", address)
    both = parse_networks("0.0.0.0/0 ::/0")
    assert not Destinations(frozenset({"hooks.example"}), both).refused("hooks.example", address)


def test_what_is_stated_may_be_reached() -> None:
    """Public addresses of a name; an address that is written out; loopback by its name."""
    assert not PUBLIC.refused("hooks.example", "93.184.216.34")
    assert not PUBLIC.refused("127.0.0.1", "127.0.0.1")
    assert not PUBLIC.refused("localhost", "127.0.0.1")
    inside = Destinations(frozenset({"hooks.example"}), parse_networks("10.0.0.0/8"))
    assert not inside.refused("hooks.example", "10.0.0.1")
    assert inside.refused("hooks.example", "192.168.1.1")


async def attempt(destinations: Destinations, url: str, ca_file: Path | None = None, **more: Any) -> None:
    """Post something."""
    async with make_receiver_client(destinations, ca_file) as client:
        await send(client, Outgoing(url, b"{}", **more), destinations, needs_tls=False)


async def test_rebound_name_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address that was looked at is the one that is used: a name server cannot answer twice."""
    server = ReceiverServer()
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])

    def resolve(host: str, port: int, *_: object) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in next(answers)]

    with served_receiver(server):
        monkeypatch.setattr(destinations_module.socket, "getaddrinfo", resolve)
        next(answers)
        with pytest.raises(NotDelivered, match=r"resolves to 127\.0\.0\.1, which is not public"):
            await attempt(PUBLIC, f"http://hooks.example:{server.port}/")
    assert server.received == []


async def test_redirect_is_not_followed() -> None:
    """It is a failure that says what to do."""
    server, inside = ReceiverServer(), ReceiverServer()
    with served_receiver(server), served_receiver(inside):
        for status in (301, 302, 303, 307, 308):
            server.next_answers.append((status, {"Location": inside.url}, b""))
            with pytest.raises(NotDelivered, match=f"HTTP {status}, a redirect: these are not followed"):
                await attempt(PUBLIC, server.url)
    assert inside.received == [] and len(server.received) == 5


async def test_answers_are_judged() -> None:
    """What is final, what is to be tried again and when; of an answer only the services' own forms are shown."""
    server = ReceiverServer()
    with served_receiver(server):
        server.next_answers.append((410, {}, b"bye <secrets>"))
        with pytest.raises(NotDelivered, match=r"^HTTP 410, it wants no more$") as gone:
            await attempt(PUBLIC, server.url)
        assert gone.value.is_final
        server.next_answers.append((429, {"Retry-After": "7"}, b'{"message": "slow down", "errors": ["a\\u001b[2J"]}'))
        with pytest.raises(NotDelivered, match="HTTP 429: slow down; a\N{REPLACEMENT CHARACTER}") as limited:
            await attempt(PUBLIC, server.url)
        assert limited.value.retry_after == 7.0 and not limited.value.is_final
        server.next_answers.append((503, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, b"[" * 100_000))
        with pytest.raises(NotDelivered, match=r"^HTTP 503$") as down:
            await attempt(PUBLIC, server.url)
        assert down.value.retry_after == 0.0
        server.next_answers.append((200, {}, b"<html>sign in</html>"))
        with pytest.raises(NotDelivered, match="is not `ok`"):
            await attempt(PUBLIC, server.url, read_answer=read_answer_of_webhook)
    with pytest.raises(NotDelivered, match="refused"):
        await attempt(PUBLIC, server.url)
    with pytest.raises(InvalidSettings, match="not allowed"):
        await attempt(PUBLIC, "http://other.example/")


async def test_own_authorities(tmp_path: Path) -> None:
    """A receiver with a certificate of an authority of ours, and one with that of a stranger."""
    authority, stranger = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    server = ReceiverServer()
    with served_receiver(server, authority.sign("127.0.0.1")):
        await attempt(PUBLIC, server.url, authority.file)
        with pytest.raises(NotDelivered, match="TLS failed: the certificate is refused"):
            await attempt(PUBLIC, server.url, stranger.file)
    with pytest.raises(InvalidSettings, match="authorities"):
        make_receiver_client(PUBLIC, tmp_path / "nothing")
