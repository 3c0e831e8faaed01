"""Agents of earlier versions, as they were recorded (see record.py), behind real sockets."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

RECORDINGS = tuple(sorted((Path(__file__).parents[2] / "data" / "neighbours").iterdir()))
"""One folder for each earlier version, called by the commit that was recorded."""

JOB, CULPRIT, NODES = "recorded", 2, ("node01", "node02")
UNKNOWN = "/v1/invented-later"


class Recording:
    """What one version's agents were asked and what they answered, with its schemas and its verdict."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def exchanges(self) -> dict[str, list[dict[str, Any]]]:
        """Questions and answers, in their order, by node."""
        return {node: self._read(node) for node in NODES}

    @property
    def questions(self) -> list[str]:
        """Every question that a collector of that version asked, once."""
        asked = [each["asked"] for told in self.exchanges.values() for each in told if each["asked"] != UNKNOWN]
        return sorted(set(asked))

    @property
    def diagnosis(self) -> dict[str, Any]:
        """What its collector made of it."""
        read: dict[str, Any] = self._read("diagnosis")
        return read

    def schema(self, model: str) -> dict[str, Any]:
        """Return what it took for a valid model of that name."""
        read: dict[str, Any] = self._read(f"{model}.schema")
        return read

    def _read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_bytes())


class OlderAgent(ThreadingHTTPServer):
    """Answers as one agent did: look by look, and to whatever it did not know as it did to that."""

    daemon_threads = True

    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.asked: list[str] = []
        self._answers: dict[tuple[str, bool], list[dict[str, Any]]] = defaultdict(list)
        for each in exchanges:
            self._answers[_sort(each["asked"])].append(each)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, asked: str) -> tuple[int, bytes]:
        """Return status and body; the last look stands for all later ones."""
        self.asked.append(asked)
        path, of_some = _sort(asked)
        left = self._answers.get((path, of_some)) or self._answers.get((path, False)) or self._answers[UNKNOWN, False]
        told = left.pop(0) if len(left) > 1 else left[0]
        return told["status"], json.dumps(told["answer"]).encode()


def _sort(asked: str) -> tuple[str, bool]:
    """Return the path of a question, and whether it is about some processes only."""
    url = urlsplit(asked)
    return url.path, "pid" in parse_qs(url.query)


class _Answering(BaseHTTPRequestHandler):
    server: OlderAgent
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer as recorded."""
        status, body = self.server.answer(self.path)
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status == 200 else "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


@contextmanager
def served(recording: Recording) -> Iterator[list[OlderAgent]]:
    """Serve all agents of a recording."""
    agents = [OlderAgent(told) for told in recording.exchanges.values()]
    threads = [threading.Thread(target=agent.serve_forever, daemon=True) for agent in agents]
    for thread in threads:
        thread.start()
    try:
        yield agents
    finally:
        for agent, thread in zip(agents, threads, strict=True):
            agent.shutdown()
            agent.server_close()
            thread.join()
