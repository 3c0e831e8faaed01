"""Records what an agent and a collector of one version say to each other about a real job, for the tests of later ones.

    git worktree add ../older COMMIT
    python -m tests.system.versions.record ../older tests/data/neighbours/NAME

Both run from that checkout, as processes of their own; a proxy between them writes everything down. Names of this
machine are taken out. The job is one of ours, with the probe of that checkout.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from tests.build.processes.waiting import until_it_answers
from tests.system.live.jobs import Job
from tests.system.live.truths import REPOSITORY

PROGRAM = "asleep_before_collective"
NODES = {"node01": "0,1", "node02": "2,3"}
SURVEY_ABOVE = ("32", "1")
"""How many agents each collector looks at whole: one as of a small job, the other as of a large one."""
SECONDS = 60.0

_SCHEMAS = """
import json
from shared.answer.diagnosis import Diagnosis
from shared.wire.snapshot import NodeSnapshot, RankList
from shared.wire.survey_form import Survey
for model in (NodeSnapshot, RankList, Survey, Diagnosis):
    print(json.dumps({"title": model.__name__, **model.model_json_schema()}))
"""


class Proxy(ThreadingHTTPServer):
    """Passes questions on to one agent, and keeps them with the answers."""

    daemon_threads = True

    def __init__(self, agent: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.agent = agent
        self.heard: list[dict[str, Any]] = []


class _Passing(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        answer = httpx.get(f"{self.server.agent}{self.path}", timeout=SECONDS, trust_env=False)
        if self.path != "/metrics":
            self.server.heard.append({"asked": self.path, "status": answer.status_code, "answer": answer.json()})
        self.send_response(answer.status_code)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def record(checkout: Path, target: Path) -> None:
    """Write the recording into `target`."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        probe = {"PYTHONPATH": _said(checkout, "probe-path").strip()}
        job = stack.enter_context(Job(PROGRAM, directory=Path(folder), environment=probe))
        proxies = {}
        for node, ranks in NODES.items():
            agent = stack.enter_context(_service(checkout, "agent", "--host-name", node, "--only-ranks", ranks))
            proxies[node] = stack.enter_context(_proxied(agent))
        agents = ",".join(f"http://127.0.0.1:{proxy.server_address[1]}" for proxy in proxies.values())
        for above in SURVEY_ABOVE:
            store = str(Path(folder) / f"store{above}.sqlite3")
            options = ("--agents", agents, "--store", store, "--survey-above", above)
            collector = stack.enter_context(_service(checkout, "collector", *options))
            asked = f"{collector}/v1/jobs/{job.name}/diagnoses?wait=60"
            diagnosis = httpx.post(asked, timeout=2 * SECONDS, trust_env=False).raise_for_status().json()
        for proxy in proxies.values():  # what no collector of that version asks, and later ones may
            httpx.get(f"http://127.0.0.1:{proxy.server_address[1]}/v1/invented-later", trust_env=False)
        names = {str(folder): "/srv/job", str(checkout.resolve()): "/srv/unhang", job.name: "recorded"}
        for node, proxy in proxies.items():
            _write(target / f"{node}.json", [_without_others(each) for each in proxy.heard], names)
        _write(target / "diagnosis.json", diagnosis, names)
    for line in _ran(checkout, "-c", _SCHEMAS).splitlines():
        schema = json.loads(line)
        _write(target / f"{schema['title']}.schema.json", schema, {})


def _without_others(exchange: dict[str, Any]) -> dict[str, Any]:
    """Leave out the kernel's lines, which are of whatever else ran on this machine."""
    answer = exchange["answer"]
    told = answer.get("kernel_events")
    if answer.get("kind") == "survey":
        answer["kernel_events"], answer["tables"]["kernel_events"] = {}, []
    elif isinstance(told, dict) and "events" in told:
        told["events"] = []
    return exchange


def _said(checkout: Path, *words: str) -> str:
    return _ran(checkout, "-m", "cli", *words)


def _ran(checkout: Path, *words: str) -> str:
    done = subprocess.run((sys.executable, *words), cwd=checkout, capture_output=True, text=True, check=True)
    return done.stdout


@contextmanager
def _service(checkout: Path, *words: str) -> Iterator[str]:
    """Run an agent or a collector of the checkout; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = f"127.0.0.1:{holder.getsockname()[1]}"
    with subprocess.Popen((sys.executable, "-m", "cli", *words, "--listen", address), cwd=checkout) as process:
        try:
            until_it_answers(f"http://{address}/healthz", process)
            yield f"http://{address}"
        finally:
            process.terminate()


@contextmanager
def _proxied(agent: str) -> Iterator[Proxy]:
    proxy = Proxy(agent)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()


def _write(path: Path, value: Any, names: dict[str, str]) -> None:
    """Write JSON without names of this machine."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    names = {
        **names,
        str(REPOSITORY): "/srv/unhang",
        sys.prefix: "/opt/python",
        sys.base_prefix: "/usr",
        socket.gethostname(): "node",
    }
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="ascii")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("target", type=Path)
    wanted = parser.parse_args()
    record(wanted.checkout, wanted.target)
