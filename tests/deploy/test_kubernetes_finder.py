"""The program that lists the agents' pods for the collector, against a server that speaks the API's page by page."""

import importlib.util
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme

from collector.inventory import StaticInventory
from tests.deploy.kubernetes import KUBERNETES

_SPEC = importlib.util.spec_from_file_location("finder", KUBERNETES / "base" / "agents.py")
assert _SPEC is not None
assert _SPEC.loader is not None
finder: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(finder)

SELECTOR = "app.kubernetes.io/name=unhang-agent"


def pod(address: str | None, phase: str = "Running") -> dict[str, Any]:
    """Return what the API tells of a pod, as far as it matters."""
    return {
        "metadata": {"name": "unhang-agent-x"},
        "status": {"phase": phase} | ({"podIP": address} if address else {}),
    }


class Server(ThreadingHTTPServer):
    """A Kubernetes API with one kind of object, two to a page."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pods: list[dict[str, Any]] = []
        self.broken: bytes | None = None
        self.asked: list[dict[str, list[str]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        """Answer with a page, with what is broken, or not at all without the right token."""
        where = urlsplit(self.path)
        query = parse_qs(where.query)
        allowed = self.headers["Authorization"] == "Bearer of-the-account"
        if not allowed or where.path != "/api/v1/namespaces/unhang/pods":
            self.send_error(403)
            return
        self.server.asked.append(query)
        begin = int(query.get("continue", ["0"])[0])
        rest = str(begin + 2) if begin + 2 < len(self.server.pods) else ""
        page = json.dumps({"metadata": {"continue": rest}, "items": self.server.pods[begin : begin + 2]})
        body = page.encode() if self.server.broken is None else self.server.broken
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[Server]:
    """A server that runs."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """What Kubernetes mounts for a service account."""
    folder = tmp_path / "account"
    folder.mkdir()
    for name, text in {"token": "of-the-account\n", "namespace": "unhang", "ca.crt": ""}.items():
        (folder / name).write_text(text, encoding="ascii")
    return folder


def asked_of(server: Server, account: Path, scheme: str = "http") -> Any:
    """Return whom to ask."""
    return finder.Api(f"{scheme}://127.0.0.1:{server.server_port}", account)


def test_every_page_is_read_and_the_collector_understands_it(api: Server, account: Path, tmp_path: Path) -> None:
    """Pods that wait for an address or have ended are left out, those that are not ready are not."""
    api.pods = [pod("10.0.0.3"), pod("10.0.0.1"), pod(None, "Pending"), pod("10.0.0.9", "Failed"), pod("fd00::7")]
    target = tmp_path / "list"
    assert finder.refresh(asked_of(api, account), SELECTOR, 8471, target)
    assert target.read_text() == "10.0.0.1:8471\n10.0.0.3:8471\n[fd00::7]:8471\n"
    assert len(StaticInventory(file=target).addresses()) == 3
    assert [query["labelSelector"] for query in api.asked] == [[SELECTOR]] * 3


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b'{"items": [1]}', b'{"items": [{}], "metadata": {}}', b"\xff"])
def test_last_list_stands_while_the_answer_makes_no_sense(
    broken: bytes, api: Server, account: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told on standard error, and tried again later."""
    target = tmp_path / "list"
    target.write_text("10.0.0.1:8471\n")
    api.broken = broken
    assert not finder.refresh(asked_of(api, account), SELECTOR, 8471, target)
    assert target.read_text() == "10.0.0.1:8471\n"
    assert "stays as it is" in capsys.readouterr().err


def test_refusal_keeps_the_list_too(api: Server, account: Path, tmp_path: Path) -> None:
    """A token that the API does not accept, and one that is not there."""
    (account / "token").write_text("another", encoding="ascii")
    assert not finder.refresh(asked_of(api, account), SELECTOR, 8471, tmp_path / "list")
    (account / "token").unlink()
    assert not finder.refresh(asked_of(api, account), SELECTOR, 8471, tmp_path / "list")
    assert not (tmp_path / "list").exists()


def test_nothing_is_written_where_nothing_has_changed(api: Server, account: Path, tmp_path: Path) -> None:
    """The collector reads the file anew when it changes."""
    api.pods = [pod("10.0.0.1")]
    target = tmp_path / "list"
    finder.refresh(asked_of(api, account), SELECTOR, 8471, target)
    before = target.stat()
    finder.refresh(asked_of(api, account), SELECTOR, 8471, target)
    assert target.stat() == before


def test_only_the_clusters_own_authority_is_believed(api: Server, account: Path, tmp_path: Path) -> None:
    """Over TLS: the authority that is mounted beside the token, and no other."""
    ours, theirs = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.issue_cert("127.0.0.1").configure_cert(context)
    api.socket = context.wrap_socket(api.socket, server_side=True)
    api.pods = [pod("10.0.0.1")]
    theirs.cert_pem.write_to_path(account / "ca.crt")
    assert not finder.refresh(asked_of(api, account, "https"), SELECTOR, 8471, tmp_path / "list")
    ours.cert_pem.write_to_path(account / "ca.crt")
    assert finder.refresh(asked_of(api, account, "https"), SELECTOR, 8471, tmp_path / "list")
