"""Requests that web pages have a browser send to a service, with what browsers say of them."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.server.tls import ClientTls
from tests.build.services.certificates import Authority
from tests.build.services.services import Service, serving
from tests.system.attacks.served import TOKEN, serve, statuses

EVIL = "http://evil.example"
CROSS_SITE = [
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-User": "?1"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "something-new"},
    {"Sec-Fetch-Site": ""},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:PORT"},
    {"Origin": EVIL},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://localhost:1"},
    {"Origin": "http://localhost"},
    {"Origin": "http://127.0.0.1:PORT"},
    {"Origin": "http://localhost:PORT.evil.example"},
    {"Origin": "http://localhost:PORT@evil.example"},
    {"Origin": f"{EVIL}/http://localhost:PORT"},
    {"Origin": "file://"},
    {"Origin": "chrome-extension://abcdefghijklmnop"},
    {"Origin": f"http://localhost:PORT {EVIL}"},
    {"Sec-Fetch-Site": "none", "Origin": EVIL},
]
OWN = [
    {},
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:PORT"},
    {"Origin": "http://localhost:PORT"},
    {"Origin": "https://LOCALHOST:PORT"},
    {"Referer": f"{EVIL}/", "Origin": "http://localhost:PORT"},
]


def request(
    service: Service, headers: dict[str, str], method: str = "GET", path: str = "/", **more: Any
) -> httpx.Response:
    """Ask by the name `localhost`; PORT in a header is the service's."""
    sent = {name: value.replace("PORT", str(service.port)) for name, value in headers.items()}
    url = service.plain_url(path)
    return httpx.request(method, url, headers=sent, trust_env=False, timeout=60.0, verify=False, **more)


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that asks nobody who they are."""
    with serving(tmp_path_factory.mktemp("unguarded")) as service:
        yield service


@pytest.mark.parametrize("headers", CROSS_SITE, ids=str)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_pages_from_elsewhere_get_nothing(unguarded: Service, method: str, headers: dict[str, str]) -> None:
    """Images, links, forms and scripts of another site, port or scheme, with whatever a browser tells of them."""
    before = len(unguarded.lines())
    answer = request(unguarded, headers, method, content=b"{}")
    assert (answer.status_code, answer.json()["title"]) == (403, "Forbidden")
    assert answer.headers["content-type"] == "application/problem+json"
    assert ("allow_hosts" in answer.json()["advice"]) == (headers.get("Sec-Fetch-Site") in (None, "none"))
    reasons = [line["reason"] for line in unguarded.lines(before + (before < 10))[before:]]
    assert set(reasons) <= {"cross_site_request"}


@pytest.mark.parametrize("headers", OWN, ids=str)
def test_programs_and_own_pages_are_answered(unguarded: Service, headers: dict[str, str]) -> None:
    """What says nothing is a program; the rest is the address bar, and /docs of this service."""
    assert request(unguarded, headers).status_code == 200
    assert request(unguarded, headers, "POST", json={"a": 1}).json() == {"a": 1}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((good, 200) for good in ("localhost", "LOCALHOST:1", "localhost.", "127.0.0.1", "127.9.9.9:80", "[::1]:9")),
        *((good, 200) for good in ("127.0.0.1:8470", "[::1]", "[0:0:0:0:0:0:0:1]", "localhost:")),
        *((bad, 421) for bad in ("evil.example", "evil.example:8470", "localhost.evil.example", "127.0.0.1.nip.io")),
        *((bad, 421) for bad in ("xlocalhost", "evil.localhost", "0.0.0.0", "[::]", "10.0.0.1", "169.254.169.254")),
        *(
            (bad, 421)
            for bad in ("localhost/healthz?", "localhost@evil.example", "evil.example#localhost", "x localhost")
        ),
        *(
            (bad, 421)
            for bad in ("localhost:80:80", "localhost:x", "::1", "[::1", "[localhost]", "127.1", "2130706433")
        ),
        *((bad, 421) for bad in ("", "localhost,evil.example", "localh\xf6st", "[::ffff:10.0.0.1]")),
    ],
)
@pytest.mark.parametrize("path", ["/", "/docs"])
def test_names_of_a_service_without_a_token(unguarded: Service, path: str, host: str, status: int) -> None:
    """A page whose name was made to mean 127.0.0.1 shows that name, and is not answered by any path."""
    assert statuses(unguarded, f"GET {path} HTTP/1.1\nHost: {host}\nConnection: close\n\n") == [status]


def test_a_request_without_a_name(unguarded: Service) -> None:
    """HTTP/1.0 has none, and no browser speaks it; still nobody knows whom it was meant for."""
    assert statuses(unguarded, "GET / HTTP/1.0\n\n") == [421]


def test_names_that_are_given(tmp_path: Path) -> None:
    """A proxy's name is one of ours; its pages are ours too, whatever name the proxy asks us by."""
    with serving(tmp_path, allow_hosts="unhang.example, 10.0.0.7 fd00::7") as service:
        for host, status in (("Unhang.Example:443", 200), ("10.0.0.7", 200), ("[fd00::7]:80", 200), ("x.example", 421)):
            assert request(service, {"Host": host}).status_code == status
        assert request(service, {"Host": "unhang.example", "Origin": "https://unhang.example"}).status_code == 200
        assert request(service, {"Origin": "https://unhang.example:8443"}, "POST", json={}).status_code == 200
        assert request(service, {"Host": "unhang.example", "Origin": "https://xunhang.example"}).status_code == 403
        assert request(service, {"Host": "x.example", "Origin": "https://unhang.example"}).status_code == 421
    assert [line["reason"] for line in service.lines()] == [
        "host_not_allowed",
        "cross_site_request",
        "host_not_allowed",
    ]
    assert service.lines()[0]["detail"] == "this service does not answer to the name 'x.example'"


def test_a_token_that_a_proxy_adds_is_not_for_other_sites(guarded: tuple[Service, str]) -> None:
    """A proxy that knows its users by cookies may add the token to whatever a browser sends it."""
    service, path = guarded
    known = {"Authorization": f"Bearer {TOKEN}", "Host": "unhang.example"}
    assert request(service, known, path=path).status_code == 200
    assert (
        request(service, {**known, "Sec-Fetch-Site": "same-origin", "Origin": "https://x"}, path=path).status_code
        == 200
    )
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": EVIL}, {"Origin": "null"}):
        assert request(service, {**known, **headers}, path=path).status_code == 403
    assert request(service, {"Sec-Fetch-Site": "cross-site"}, path="/healthz").status_code == 200


def test_a_certificate_in_a_browser_is_not_for_other_sites(tmp_path: Path) -> None:
    """A browser shows it to the service whichever page asks."""
    authority = Authority(tmp_path / "pki")
    server, mine = authority.sign("localhost"), authority.files(authority.sign("oncall.example"))
    tls = {"tls_cert_file": server.certificate, "tls_key_file": server.key, "client_ca_file": authority.file}
    context: ssl.SSLContext = ClientTls(mine).context()
    with (
        serving(tmp_path, **tls) as service,
        httpx.Client(verify=context, trust_env=False, timeout=60.0) as client,
    ):
        for headers, status in (
            ({}, 200),
            ({"Host": "node7.example"}, 200),
            ({"Sec-Fetch-Site": "same-origin"}, 200),
            ({"Origin": f"https://localhost:{service.port}"}, 200),
            ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
            ({"Sec-Fetch-Site": "same-site", "Origin": "https://other.localhost"}, 403),
            ({"Origin": EVIL}, 403),
        ):
            assert client.get(service.url(), headers=headers).status_code == status, headers


def test_a_page_starts_no_diagnosis_and_stops_no_rank(tmp_path: Path) -> None:
    """The agent is asked for nothing, until a program asks; and what was refused is counted."""
    nobody = "999999"  # other tests' ranks need no look
    with (
        serve("agent", tmp_path, only_ranks=nobody) as agent,
        serve("collector", tmp_path, agents=f"127.0.0.1:{agent.port}") as collector,
    ):
        forms = {"Content-Type": "text/plain", "Origin": EVIL, "Sec-Fetch-Site": "cross-site"}
        rebound = {"Host": f"evil.example:{collector.port}", "Origin": f"{EVIL}:{collector.port}"}
        image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
        diagnose = "/v1/jobs/x/diagnoses?wait=5"
        assert request(collector, forms, "POST", diagnose, content=b"{}").status_code == 403
        assert request(collector, rebound, "POST", diagnose, json={}).status_code == 421
        assert request(collector, image, path="/v1/jobs/x/stacks").status_code == 403
        assert request(agent, image, path="/v1/snapshot").status_code == 403
        assert [line["action"] for line in agent.lines()] == ["refused"]
        assert request(agent, {}, path="/v1/snapshot").status_code == 200
        assert [line["action"] for line in agent.lines()] == ["refused", "snapshot"]
        assert (
            request(collector, {}, "POST", diagnose, json={}).status_code == 404
        )  # the agent was asked, and knows no such job
        for service, name in ((agent, "unhang_agent_refused"), (collector, "unhang_collector_refused")):
            counted = request(service, {}, path="/metrics").text
            assert f'{name}_total{{reason="cross_site_request"}} ' in counted
            assert f'{name}_total{{reason="cross_site_request"}} 0.0' not in counted
        assert 'unhang_collector_refused_total{reason="host_not_allowed"} 1.0' in counted


def test_no_page_shows_ours_within_itself(guarded: tuple[Service, str]) -> None:
    """A click on what looks like something else would start what /docs can start."""
    service, path = guarded
    for asked in ("/docs", "/healthz", path, "/v1/none"):
        assert request(service, {}, path=asked).headers.get_list("x-frame-options") == ["DENY"]
