"""Requests by which strangers try to get past the gate of both services.

tests/system/packaging/test_lowest_versions.py runs them with the oldest libraries that we accept, too.
"""

from pathlib import Path

import httpx
import pytest

from shared.server.gate import OPEN, Gate
from tests.build.services.services import Service
from tests.system.attacks.served import KINDS, TOKEN, make, statuses


def test_the_token_opens_what_is_guarded(guarded: tuple[Service, str]) -> None:
    """What the next tests hold means something: the path answers to whoever is known."""
    service, path = guarded
    head = f"GET {path} HTTP/1.1\nHost: any.example\nConnection: close\n"
    assert statuses(service, f"{head}Authorization: Bearer {TOKEN}\n\n") == [200]
    assert statuses(service, f"{head}\n") == [401]


@pytest.mark.parametrize(
    "host",
    "x/healthz? x/healthz# x/docs? /healthz? x:80/healthz? x@y/healthz? x\\healthz? [::1]/healthz? http://x/healthz? "
    "localhost/healthz? x%2fhealthz%3f x/healthz;".split(),
)
def test_host_does_not_say_which_path_is_asked_for(guarded: tuple[Service, str], host: str) -> None:
    """CVE-2026-48710: the gate saw /healthz, and the router what was asked for."""
    service, path = guarded
    assert statuses(service, f"GET {path} HTTP/1.1\nHost: {host}\nConnection: close\n\n")[0] in (400, 401)


@pytest.mark.parametrize(
    "target",
    [
        *("/healthz/..PATH", "/healthz/../PATH", "/healthz/%2e%2e/PATH", "/healthz/..%2fPATH", "/healthz;/..PATH"),
        *("/healthz%3f/..PATH", "/healthz%00/..PATH", "//healthzPATH", "/.PATH", "/docs/..PATH", "//x/healthz/..PATH"),
        *("PATH?/healthz", "PATH?x=/healthz", "PATH;/healthz", "PATH;x=/healthz", "PATH%3f/healthz", "PATH%00/healthz"),
        *("PATH/", "/PATH", "PATH//", "PATH/.", "PATH/../healthz", "PATH/healthz", "PATH%20", "PATH."),
        *("http://x/healthz?/..PATH", "http://xPATH", "http://localhost/healthz", "x/healthz", "healthz", "*"),
        *("/HEALTHZ", "/healthz/", "//healthz", "/healthz/x", "/healthz%2f", "/healthz%20", "/Docs", "/openapi.json/"),
    ],
)
def test_spellings_of_paths(guarded: tuple[Service, str], target: str) -> None:
    """No spelling of one path is another one for the router than for the gate: nobody gets in by any of these."""
    service, path = guarded
    target = target.replace("PATH", path)
    assert statuses(service, f"GET {target} HTTP/1.1\nHost: x\nConnection: close\n\n")[0] in (400, 401)


def test_spellings_that_are_the_path(guarded: tuple[Service, str]) -> None:
    """Escapes that mean the same path open the same, and no more."""
    service, path = guarded
    for target, status in (("/%68ealthz", 200), ("/healthz?x=1", 200), (path.replace("v1", "%76%31"), 401)):
        assert statuses(service, f"GET {target} HTTP/1.1\nHost: x\nConnection: close\n\n") == [status]


@pytest.mark.parametrize(
    "fields",
    [
        *("X-Original-URL: /healthz", "X-Rewrite-URL: /healthz", "X-Forwarded-Prefix: /healthz", "X-Script-Name: /x"),
        *("X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: localhost", "Forwarded: for=127.0.0.1;host=localhost"),
        *("X-HTTP-Method-Override: OPTIONS", "X-Forwarded-Proto: https", "X-Forwarded-Path: /healthz"),
        *(
            "Authorization: Basic cmlnaHQ=",
            "Authorization: Bearer",
            "Authorization: Bearer wrong",
            "Authorization: right",
        ),
        *("Cookie: token=right", "Proxy-Authorization: Bearer right", "X-Token: right"),
        "Upgrade: websocket\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\nSec-WebSocket-Version: 13",
        "Upgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__",
    ],
)
def test_fields_that_some_servers_heed(guarded: tuple[Service, str], fields: str) -> None:
    """None of them replaces the token, the path or the method."""
    service, path = guarded
    assert statuses(service, f"GET {path} HTTP/1.1\nHost: x\n{fields}\nConnection: close, Upgrade\n\n") == [401]


@pytest.mark.parametrize("method", "HEAD OPTIONS POST PUT DELETE PATCH TRACE CONNECT get GETS".split())
def test_methods(guarded: tuple[Service, str], method: str) -> None:
    """Each is refused before it is looked at, and those that the open paths do not have show nothing there."""
    service, path = guarded
    assert statuses(service, f"{method} {path} HTTP/1.1\nHost: x\nConnection: close\n\n") == [401]
    shows_nothing = {"HEAD": 200, "OPTIONS": 204}.get(method, 405)
    assert statuses(service, f"{method} /healthz HTTP/1.1\nHost: x\nConnection: close\n\n") == [shows_nothing]


def test_old_and_broken_requests(guarded: tuple[Service, str]) -> None:
    """HTTP/1.0 without a name, two names, none, and other versions."""
    service, path = guarded
    assert statuses(service, f"GET {path} HTTP/1.0\n\n") == [401]
    assert statuses(service, f"GET {path} HTTP/1.1\nHost: x\nHost: x/healthz?\n\n") == [400]
    assert statuses(service, f"GET {path} HTTP/1.1\n\n") == [400]
    assert statuses(service, "PRI * HTTP/2.0\n\nSM\n\n")[0] in (400, 401)


def test_requests_on_one_connection_are_judged_one_by_one(guarded: tuple[Service, str]) -> None:
    """One that is let in lets in no other: pipelined, hidden in a body, or with two lengths."""
    service, path = guarded
    hidden = f"GET {path} HTTP/1.1\nHost: x\nConnection: close\n\n"
    open_first = "GET /healthz HTTP/1.1\nHost: x\n"
    assert statuses(service, f"{open_first}\n{hidden}") == [200, 401]
    known = f"GET {path} HTTP/1.1\nHost: x\nAuthorization: Bearer {TOKEN}\n"
    assert statuses(service, f"{known}\n{hidden}") == [200, 401]
    for lengths in ("Content-Length: 0\nTransfer-Encoding: chunked", "Content-Length: 0\nContent-Length: 9", "X: y"):
        assert 200 not in statuses(service, f"{open_first}{lengths}\n\n0\n\n{hidden}")[1:]


@pytest.mark.parametrize("kind", KINDS)
async def test_routes_are_guarded_without_the_gate_as_well(kind: str, token_file: Path, tmp_path: Path) -> None:
    """Were the gate led astray once more, each route would still ask for the token itself."""
    app, _ = make(kind, tmp_path, token_file=token_file)
    app.user_middleware = [one for one in app.user_middleware if one.cls is not Gate]
    operations = [(method, path) for path, methods in app.openapi()["paths"].items() for method in methods]
    assert len(operations) > 5
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        for method, path in operations:
            if path in OPEN:
                continue
            asked = path.replace("{pid}", "1").replace("{rank}", "0")
            answer = await client.request(method, asked)
            assert answer.status_code == 401, (method, path)
    app.state.audit.close()
