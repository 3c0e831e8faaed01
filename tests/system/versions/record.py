"""Records what agents, collectors and command lines of a release say to each other about a real job, for later ones.

    git worktree add ../older v0.1.0
    python -m tests.system.versions.record ../older tests/data/neighbours/0.1.0

All run from that checkout, as processes of their own; proxies between them write everything down. The job is one of
ours, with the probe of that checkout; it hangs, and in the end a rank is killed, which is an incident. Names of this
machine are taken out. Of what is then written, a collector of the release makes the store that later ones migrate.
"""

import argparse
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from tests.build.processes.waiting import until_it_answers
from tests.system.live.jobs import Job
from tests.system.live.truths import REPOSITORY
from tests.system.versions.older import CULPRIT, JOB, Recording, served

PROGRAM = "asleep_before_collective"
NODES = {"node01": "0,1", "node02": "2,3"}
SURVEY_ABOVE = ("32", "1")
"""How many agents each collector looks at whole: one as of a small job, the other as of a large one."""
ASKED = (("jobs",), ("diagnose", "--json"), ("stacks",), ("check",))
"""What people ask a collector of a job, of which there is one."""
ASKED_LATER = (("incidents",), ("history",))
"""Once it has opened an incident."""
SECONDS = 60.0
_INCIDENT_SECONDS = 300.0

_SCHEMAS = """
import json
from cli.sources.aspects import CHECKS, TREE
from cli.sources.incidents import IncidentPage
from cli.sources.job_source import JobNames
from shared.answer.diagnosis import Diagnosis
from shared.wire.registration import Lease, Registration
from shared.wire.snapshot import NodeSnapshot, RankList
from shared.wire.survey_form import Survey
for model in (
    NodeSnapshot, RankList, Survey, Registration, Lease, Diagnosis, JobNames, TREE.model, CHECKS.model, IncidentPage
):
    print(json.dumps({"title": model.__name__, **model.model_json_schema()}))
"""


class Proxy(ThreadingHTTPServer):
    """Passes questions on to one service, and keeps them with the answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.service = ""
        self.heard: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Passing(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        of_body = {"Content-Type": "application/json"} if sent else {}
        asked = httpx.Request(self.command, f"{self.server.service}{self.path}", content=sent, headers=of_body)
        with httpx.Client(timeout=2 * SECONDS, trust_env=False) as client:
            answer = client.send(asked)
        if self.path != "/metrics":
            heard = {"asked": self.path, "status": answer.status_code, "answer": answer.json()}
            self.server.heard.append(heard | ({"sent": json.loads(sent)} if sent else {}))
        self.send_response(answer.status_code)
        for name in ("Content-Type", "Location"):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_PUT = do_POST = do_GET

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def record(checkout: Path, target: Path) -> None:
    """Write the recording into `target`."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        probe = {"PYTHONPATH": _ran(checkout, "-m", "cli", "probe-path").strip()}
        job = stack.enter_context(Job(PROGRAM, directory=Path(folder), environment=probe, recorded=True))
        collector, *agents = (stack.enter_context(_proxied()) for _ in range(1 + len(NODES)))
        watching = ("--registration-seconds", "60", "--store", f"{folder}/watching.sqlite3")
        collector.service = stack.enter_context(_service(checkout, "collector", *watching))
        for agent, (node, ranks) in zip(agents, NODES.items(), strict=True):
            own = ("--host-name", node, "--only-ranks", ranks, "--advertise", agent.url)
            agent.service = stack.enter_context(_service(checkout, "agent", *own, "--collectors", collector.url))
        for above in SURVEY_ABOVE:
            listed = ("--agents", ",".join(agent.url for agent in agents), "--survey-above", above)
            options = (*listed, "--store", f"{folder}/store{above}.sqlite3")
            url = stack.enter_context(_service(checkout, "collector", *options))
            asked = f"{url}/v1/jobs/{job.name}/diagnoses?wait=60"
            httpx.post(asked, timeout=2 * SECONDS, trust_env=False).raise_for_status()
        for agent in agents:  # what no collector of that version asks, and later ones may
            httpx.get(f"{agent.url}/v1/invented-later", trust_env=False)
        heard = {node: list(agent.heard) for node, agent in zip(NODES, agents, strict=True)}
        heard["collector"] = _registrations(collector) + _asked(checkout, collector, ASKED)
        os.kill(job.ranks[CULPRIT], signal.SIGKILL)  # asleep in its first step, it would be no incident for minutes
        _wait_for_incident(collector)
        heard["collector"] += _asked(checkout, collector, ASKED_LATER)
        names = {str(folder): "/srv/job", str(checkout.resolve()): "/srv/unhang", job.name: JOB}
        for name, exchanges in heard.items():
            _write(target / f"{name}.json", [_without_others(each) for each in exchanges], names)
    for line in _ran(checkout, "-c", _SCHEMAS).splitlines():
        schema = json.loads(line)
        _write(target / f"{schema['title']}.schema.json", schema, {})
    _write_store(checkout, target)


def _registrations(collector: Proxy) -> list[dict[str, Any]]:
    """Return how each agent registered first, and how once it told of the job."""
    told = [[each for each in collector.heard if each["asked"].endswith(f"/{node}")] for node in NODES]
    return [each for by_one in told for each in (by_one[0], by_one[-1])]


def _wait_for_incident(collector: Proxy) -> None:
    until = time.monotonic() + _INCIDENT_SECONDS
    while not httpx.get(f"{collector.service}/v1/incidents", trust_env=False).json()["incidents"]:
        if time.monotonic() > until:
            raise TimeoutError("no incident was opened")
        time.sleep(1.0)


def _asked(checkout: Path, collector: Proxy, commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Have the release's own command line ask, and return what that heard."""
    del collector.heard[:]
    for words in commands:
        command = (sys.executable, "-m", "cli", *words, "--collector", collector.url)
        subprocess.run(command, cwd=checkout, stdout=subprocess.DEVNULL, check=False)
    return [each for each in collector.heard if not each["asked"].startswith("/v1/agents/")]


def _write_store(checkout: Path, target: Path) -> None:
    """Write the statements that make the store of a collector which has been told what is recorded."""
    with tempfile.TemporaryDirectory() as folder, served(Recording(target)) as agents:
        file = f"{folder}/store.sqlite3"
        options = ("--store", file, "--agents", ",".join(agent.url for agent in agents))
        with _service(checkout, "collector", *options) as url:
            asked = f"{url}/v1/jobs/{JOB}/diagnoses?wait=60"
            httpx.post(asked, timeout=2 * SECONDS, trust_env=False).raise_for_status()
        with closing(sqlite3.connect(file)) as store:
            statements = "\n".join(store.iterdump())
    (target / "store.sql").write_text(f"{statements}\n", encoding="utf-8")


def _without_others(exchange: dict[str, Any]) -> dict[str, Any]:
    """Leave out the kernel's lines, which are of whatever else ran on this machine."""
    answer = exchange["answer"]
    told = answer.get("kernel_events")
    if answer.get("kind") == "survey":
        answer["kernel_events"], answer["tables"]["kernel_events"] = {}, []
    elif isinstance(told, dict) and "events" in told:
        told["events"] = []
    return exchange


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
def _proxied() -> Iterator[Proxy]:
    proxy = Proxy()
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
