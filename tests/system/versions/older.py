"""Agents and collectors of earlier releases, as they were recorded (see record.py), behind real sockets."""

import json
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

RECORDINGS = tuple(sorted((Path(__file__).parents[2] / "data" / "neighbours").glob("*")))
"""One folder for each earlier release."""

JOB, CULPRIT, NODES = "recorded", 2, ("node01", "node02")
UNKNOWN = "/v1/invented-later"


class Recording:
    """What one release's agents and collector were asked and what they answered, with its schemas and a store."""

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

    @cached_property
    def collector(self) -> list[dict[str, Any]]:
        """What its collector was told by agents and asked by a command line, and the answers."""
        read: list[dict[str, Any]] = self._read("collector")
        return read

    @property
    def registrations(self) -> list[dict[str, Any]]:
        """How its agents registered: first, and with the digest that was asked for."""
        return [each for each in self.collector if each["asked"].startswith("/v1/agents/")]

    def make_store(self, file: Path) -> None:
        """Make the store that a collector of the release left."""
        file.touch(mode=0o600)
        with closing(sqlite3.connect(file)) as store:
            store.executescript((self.folder / "store.sql").read_text(encoding="utf-8"))

    def schema(self, model: str) -> dict[str, Any]:
        """Return what it took for a valid model of that name."""
        read: dict[str, Any] = self._read(f"{model}.schema")
        return read

    def _read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_bytes())


class Older(ThreadingHTTPServer):
    """Answers as one service did: look by look, and to whatever it did not know as it did to that."""

    daemon_threads = True

    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.asked: list[str] = []
        self.told: list[bytes] = []
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
    server: Older
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer as recorded."""
        if sent := self.rfile.read(int(self.headers.get("Content-Length", 0))):
            self.server.told.append(sent)
        status, body = self.server.answer(self.path)
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status == 200 else "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_GET

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def served(recording: Recording) -> AbstractContextManager[list[Older]]:
    """Serve all agents of a recording."""
    return served_each(*recording.exchanges.values())


@contextmanager
def served_each(*recorded: list[dict[str, Any]]) -> Iterator[list[Older]]:
    """Serve what was recorded, each at an address of its own."""
    services = [Older(told) for told in recorded]
    threads = [threading.Thread(target=service.serve_forever, daemon=True) for service in services]
    for thread in threads:
        thread.start()
    try:
        yield services
    finally:
        for service, thread in zip(services, threads, strict=True):
            service.shutdown()
            service.server_close()
            thread.join()
