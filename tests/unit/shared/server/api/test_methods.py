"""HEAD, OPTIONS and methods that a path does not take, asked of both services on sockets."""

import http.client
from collections.abc import Iterator

import pytest

from tests.build.services.services import Service
from tests.system.attacks.served import KINDS, serve

Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture(scope="module", params=KINDS)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One of the services, open to this machine."""
    with serve(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


def ask(service: Service, method: str, path: str, **headers: str) -> Answer:
    """Send one request, and another on the same connection, which must not read what was left of the first."""
    connection = http.client.HTTPConnection("localhost", service.port, timeout=60)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        given = answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
    finally:
        connection.close()
    return given


@pytest.mark.parametrize("path", ["/healthz", "/docs", "/openapi.json", "/nowhere"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_head_is_get_without_a_body(service: Service, path: str, encoding: str) -> None:
    """Status and headers are the same: `curl -I` and probes see what GET would give."""
    head, got = (ask(service, method, path, **{"Accept-Encoding": encoding}) for method in ("HEAD", "GET"))
    for _, headers, _ in (head, got):
        headers.pop("date")
    assert head[:2] == got[:2]
    assert (head[2], len(got[2])) == (b"", int(got[1]["content-length"]))


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "QUERY"])
@pytest.mark.parametrize("path", ["/healthz", "/docs", "/openapi.json", "/metrics"])
def test_other_methods_are_told_which_to_take(service: Service, method: str, path: str) -> None:
    """405 with `Allow`, which RFC 9110 asks for, and a problem document."""
    status, headers, body = ask(service, method, path)
    assert (status, headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert headers["content-type"] == "application/problem+json"
    assert b'"urn:unhang:problem:method-not-allowed"' in body


def test_options_tells_what_a_path_takes(service: Service) -> None:
    """Without a body, and without a word of other origins: a browser's preflight gets no permission by it."""
    status, headers, body = ask(service, "OPTIONS", "/healthz")
    assert (status, headers["allow"], body) == (204, "GET, HEAD, OPTIONS", b"")
    assert not [name for name in headers if name.startswith("access-control")]
    assert ask(service, "OPTIONS", "/nowhere")[0] == 404


def test_no_redirect_to_a_host_that_the_caller_names(service: Service) -> None:
    """A slash too many is an unknown path; FastAPI would send the caller on to whatever `Host` said."""
    status, headers, _ = ask(service, "GET", "/docs/")
    assert status == 404
    assert "location" not in headers


@pytest.mark.parametrize("service", ["collector"], indirect=True)
def test_methods_of_several_routes_on_one_path(service: Service) -> None:
    """POST has a route of its own there, and any path under `/v1/jobs` may be the name of a job."""
    assert ask(service, "DELETE", "/v1/jobs/a/diagnoses")[1]["allow"] == "GET, POST, HEAD, OPTIONS"
    assert ask(service, "GET", "/v1/agents/node1")[1]["allow"] == "PUT, OPTIONS"
    assert ask(service, "HEAD", "/v1/agents/node1")[0] == 405
