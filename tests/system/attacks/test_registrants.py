"""Whoever may register an agent does not choose what of the collector's own places is asked, and reads no answer."""

import json
import socket
import threading
from pathlib import Path

import pytest

from collector.agents.agent_source import parse_one
from collector.agents.registration.registrants import parse_registrant, refuse_own_places
from collector.gather.failures import explain_status
from collector.gather.fanout import sockets
from shared.errors import InvalidHostlist, NotPermitted
from shared.wire.registration import Registration
from tests.build.services.discovery_servers import http_server
from tests.unit.collector.agents.test_directory import collector

SECRET = "AKIA-SECRET-OF-THE-INSIDE"
NEAR = [
    "http://169.254.169.254",
    "http://169.254.169.254:80/",
    "http://127.0.0.1:8470",
    "http://127.1:8470",
    "http://0x7f000001:8470",
    "http://2130706433:8470",
    "http://localhost:8470",
    "http://0.0.0.0:8470",
    "http://[::1]:8470",
    "http://[::ffff:127.0.0.1]:8470",
    "http://[::ffff:a9fe:a9fe]",
    "http://[64:ff9b::a9fe:a9fe]",
    "http://[fe80::1]:8471",
    "http://224.0.0.1:8471",
    "http://255.255.255.255:8471",
    "http://0.1.2.3:8471",
    "http://[::7f00:1]:8471",
    "http://[64:ff9b:1::7f00:1]:8471",
    "http://[2002:7f00:1::]:8471",
    "http://[2001:db8::5efe:127.0.0.1]:8471",
]
METADATA = [
    "http://[fd00:ec2::254]",
    "http://[fd00:ec2::23]",
    "http://100.100.100.200",
    "http://100.96.0.96",
    "http://[fd00:a9fe:a9fe::1]",
    "http://[::169.254.169.254]",
    "http://[::ffff:169.254.169.254]",
    "http://[::ffff:0:169.254.169.254]",
    "http://[64:ff9b::100.100.100.200]",
    "http://[64:ff9b:1::169.254.169.254]",
    "http://[64:ff9b:1:a9fe:a9:fe00::]",
    "http://[2002:a9fe:a9fe::1]",
    "http://[2001:0:5ef5:79fb:0:0:5601:5601]",
    "http://[2001:db8::200:5efe:169.254.169.254]",
    "http://2852039166",
    "http://0xa9fea9fe",
    "http://0251.0376.0251.0376",
    "http://169.16689662",
    "http://0x64.0x64.0x64.0xc8",
    "http://168.63.129.16",
    "http://192.0.0.192",
    "http://169.254.170.2",
    "http://[fd20:ce::254]",
    "http://[fd00:c1::a9fe:a9fe]",
    "http://[fe80::a9fe:a9fe]",
]


@pytest.mark.parametrize("url", METADATA)
@pytest.mark.parametrize("sender", ["10.0.0.9", "169.254.169.254", "100.100.100.200", "fd00:ec2::254", "127.0.0.1"])
async def test_metadata_of_a_cloud_is_asked_for_nobody(url: str, sender: str) -> None:
    """However it is written, and wherever the registrant says it is."""
    address = parse_registrant("node1", Registration(url=url), sender="10.0.0.9")
    with pytest.raises(NotPermitted, match="which is not accepted"):
        await refuse_own_places(address, sender=sender)


async def test_name_that_leads_to_metadata_later_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name server answered otherwise when the agent registered; of several addresses the others are used."""

    def resolve(host: str, port: int, *_: object) -> list[tuple[object, ...]]:
        answers = {
            "evil.example": ("100.100.100.200", "169.254.169.254"),
            "both.example": ("168.63.129.16", "127.0.0.1"),
        }
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in answers[host]]

    monkeypatch.setattr(sockets.socket, "getaddrinfo", resolve)
    with pytest.raises(OSError, match="no agent is there"):
        await sockets.Backend().connected("evil.example", 80)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = await sockets.Backend().connected("both.example", listener.getsockname()[1])
        assert made.getpeername()[0] == "127.0.0.1"
        made.close()


@pytest.mark.parametrize("url", NEAR)
async def test_no_place_of_our_own_is_asked_for_somebody_else(url: str) -> None:
    """By address or by a name that means it."""
    address = parse_registrant("node1", Registration(url=url), sender="10.0.0.9")
    with pytest.raises(NotPermitted, match="which is not accepted"):
        await refuse_own_places(address, sender="10.0.0.9")


@pytest.mark.parametrize(
    ("url", "sender"),
    [
        ("http://127.0.0.1:8471", "127.0.0.1"),
        ("http://127.0.0.2:8471", "127.0.0.1"),
        ("http://[::1]:8471", "127.0.0.1"),
        ("http://localhost:8471", "::1"),
        ("http://169.254.7.7:8471", "169.254.7.7"),
        ("http://10.0.0.8:8471", "10.0.0.9"),
        ("http://no-such-host.invalid:8471", "10.0.0.9"),
    ],
)
async def test_who_is_there_itself_may_say_so(url: str, sender: str) -> None:
    """An agent beside the collector; one on a network without addresses of its own; one behind another address."""
    await refuse_own_places(parse_one(url), sender=sender)


@pytest.mark.parametrize(
    "url",
    [
        "http://node1:8471/admin/delete",
        "http://node1:8471/?x=1",
        "http://node1:8471#x",
        "http://user@node1:8471",
        "http://user:pass@node1:8471",
        "gopher://node1:8471",
        "http://node1:99999",
        "http://node1:8471\\@other",
        "http://node1:8471/../..",
        "http://[::ffff:127.1]:8471",
        "http://[1.2.3.4]:8471",
    ],
)
async def test_a_registrant_has_a_host_and_a_port(url: str, tmp_path: Path) -> None:
    """Over HTTP it is a problem that says what is wrong, and nothing is kept."""
    with pytest.raises(InvalidHostlist):
        parse_registrant("node1", Registration(url=url), sender="10.0.0.9")
    async with collector(tmp_path, registration_seconds=30) as (client, service):
        put = await client.put("/v1/agents/node1", json={"url": url})
        assert (put.status_code, put.headers["content-type"]) == (400, "application/problem+json")
        assert service.inventory.agents() == ()


FOREIGN = {"type": "about:blank", "title": "", "status": 503, "detail": SECRET}
BODIES = {
    "text": (500, SECRET.encode()),
    "page": (403, f"<html>{SECRET}</html>".encode()),
    "redirect": (302, SECRET.encode()),
    "foreign problem": (
        503,
        json.dumps({"type": "about:blank", "title": "", "status": 503, "detail": SECRET}).encode(),
    ),
    "not ours": (200, json.dumps({"AccessKeyId": SECRET}).encode()),
    "not JSON": (200, SECRET.encode()),
}


@pytest.mark.parametrize("what", BODIES)
async def test_what_a_service_answers_is_shown_to_nobody(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A real server of somebody's, registered as an agent: its words stand in no answer and no log."""
    with http_server(lambda path, headers: BODIES[what]) as base:
        async with collector(tmp_path, registration_seconds=30) as (client, _):
            host, port = base.removeprefix("http://").split(":")
            assert (await client.put("/v1/agents/n", json={"url": f"http://{host}:{port}"})).status_code == 200
            said = (await client.get("/v1/agents")).text
            said += (await client.post("/v1/jobs/x/diagnoses", params={"wait": 20})).text
            said += (await client.get("/healthz")).text
    assert SECRET not in said + caplog.text


async def test_a_banner_is_shown_to_nobody(tmp_path: Path) -> None:
    """What speaks no HTTP at all, such as a mail server, says its name first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            while True:
                try:
                    caller, _ = listener.accept()
                except OSError:
                    return
                caller.sendall(f"220 {SECRET} ESMTP\r\n".encode())
                caller.close()

        threading.Thread(target=greet, daemon=True).start()
        async with collector(tmp_path, registration_seconds=30) as (client, _):
            await client.put("/v1/agents/n", json={"url": f"http://127.0.0.1:{listener.getsockname()[1]}"})
            said = (await client.get("/v1/agents")).text
        listener.shutdown(socket.SHUT_RDWR)
    assert "does not speak HTTP" in said or "the connection was reset" in said
    assert SECRET not in said


def test_our_own_problems_are_repeated() -> None:
    """An agent that is busy says why."""
    own = {
        "type": "urn:unhang:problem:service-unavailable",
        "title": "x",
        "status": 503,
        "detail": "one look at a time",
    }
    assert "one look at a time" in str(explain_status(503, json.dumps(own).encode()))
    assert "HTTP 503" in str(explain_status(503, b"<html>"))
