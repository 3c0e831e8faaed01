"""A site's package, as `docs/plugins.md` shows it: built, installed, and used by the real services."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from tests.build.processes.ports import free_port
from tests.system.packaging.environments import (
    REPOSITORY,
    RUN_SECONDS,
    Environment,
    install,
    lend_libraries,
    make_environment,
    run_here,
)

PAGE = REPOSITORY / "docs" / "plugins.md"
RANK = "import time; print('here', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with unhang and the package of the page, whose files lie in `acme` beside it."""
    folder = tmp_path_factory.mktemp("site")
    project, toml, python = (
        folder / "project",
        *re.findall(r"```(?:toml|python)\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2],
    )
    (acme := folder / "acme").mkdir()
    project.mkdir()
    (project / "pyproject.toml").write_text(toml, encoding="utf-8")
    program = python.replace("/run/acme/leases", str(acme)).replace("/etc/acme", str(acme))
    (project / "acme_unhang.py").write_text(program, encoding="utf-8")
    run_here(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), cwd=project)
    environment = make_environment(folder / "environment")
    lend_libraries(environment)
    for built in (wheel, *folder.glob("*.whl")):
        install(environment, built)
    return environment


@pytest.fixture
def acme(site: Environment) -> Path:
    """Where the package looks for what Acme knows."""
    return site.folder.parent / "acme"


def test_they_are_listed(site: Environment, tmp_path: Path) -> None:
    """With their package; a name that leads nowhere is told, and fails."""
    shown = site.run("unhang", "plugins", cwd=tmp_path)
    assert re.search(r"unhang\.finders +acme-nodes +acme-unhang 1\.0", shown)
    assert len(shown.splitlines()) == 4


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[int]:
    """A process that says it is rank 0 of a job of one."""
    named = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "JOB_NAME": "x"}
    named["TORCHELASTIC_RUN_ID"] = f"plugins-{tmp_path.name}-{os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", RANK], env={**os.environ, **named}, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None and job.stdout.readline()
        yield job.pid
        job.kill()


def test_source_is_asked(site: Environment, acme: Path, rank: int, tmp_path: Path) -> None:
    """Its lines stand beside the logs, without secrets; where it fails, it says so there."""

    def looked() -> str:
        return site.run("unhang", "snapshot", "--pid", str(rank), "--looks", "1", "--output", "-", cwd=tmp_path)

    assert "FileNotFoundError" in looked()
    (acme / f"{rank}.log").write_text("lease of shard 7 lost\npassword=hunter2hunter2\n", encoding="utf-8")
    assert "lease of shard 7 lost" in (answer := looked())
    assert "hunter2" not in answer


def test_finder_is_asked(site: Environment, acme: Path, tmp_path: Path) -> None:
    """The collector knows the agents that it names, and says who named them."""
    (acme / "nodes").write_text("node7 http://node8:9000\n", encoding="utf-8")
    port = free_port()
    arguments = ("collector", "--listen", f"127.0.0.1:{port}", "--store", str(tmp_path / "store.db"))
    with subprocess.Popen(
        (site.folder / "bin" / "unhang", *arguments), cwd=tmp_path, stderr=subprocess.PIPE
    ) as service:
        try:
            agents = _asked(f"http://127.0.0.1:{port}/v1/agents")["agents"]
            assert {each["url"]: each["learnt_from"] for each in agents} == {
                "http://node7:8471": ["plugin acme-nodes"],
                "http://node8:9000": ["plugin acme-nodes"],
            }
        finally:
            service.send_signal(signal.SIGTERM)
            service.communicate(timeout=RUN_SECONDS)


def _asked(url: str) -> dict[str, list[dict[str, object]]]:
    until = time.monotonic() + RUN_SECONDS
    while True:
        try:
            return httpx.get(url).raise_for_status().json()  # type: ignore[no-any-return]
        except httpx.HTTPError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def test_receiver_composes(site: Environment, tmp_path: Path) -> None:
    """A message in the site's own form arrives, with its secret; an unknown type is refused."""
    arrived: list[tuple[str | None, dict[str, str]]] = []

    class Chat(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.append(
                (self.headers["Authorization"], json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            )
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Chat)
    Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "secret").write_text("s3cr3t\n", encoding="utf-8")
    (tmp_path / "secret").chmod(0o600)
    text = f"""
allow_hosts = ["127.0.0.1"]
[receivers.on-call]
type = "acme-chat"
url = "http://127.0.0.1:{server.server_port}/"
secret_file = "secret"
options = {{ room = "gpu-incidents" }}
"""
    (tmp_path / "notify.toml").write_text(text, encoding="utf-8")
    (tmp_path / "wrong.toml").write_text(text.replace("acme-chat", "acme-pager"), encoding="utf-8")
    site.run("unhang", "notify", "test", "--notify-file", "notify.toml", "on-call", cwd=tmp_path)
    server.shutdown()
    server.server_close()
    ((secret, message),) = arrived
    assert secret == "Bearer s3cr3t"
    assert message["room"] == "gpu-incidents" and "TEST" in message["text"]
    command = (site.folder / "bin" / "unhang", "notify", "test", "--notify-file", "wrong.toml", "on-call")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 1
    assert "known are alertmanager, pagerduty, slack, webhook, acme-chat" in done.stderr
