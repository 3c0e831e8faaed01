"""An API server of Kubernetes as far as pods go: lists in pages and watches, by the real protocol, on real sockets."""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.build.services.discovery_servers import Body, Headers, http_server

Watch = Callable[["Cluster", dict[str, str]], Iterator[bytes]]
"""From what was asked to the lines of a watch."""


def pod(name: str, *, node: str, ip: str | None = None, labels: dict[str, str] | None = None, **more: Any) -> Any:
    """A pod as the API writes it, with fields that we do not read."""
    namespace = more.pop("namespace", "unhang")
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": more.pop("uid", f"uid-{name}"),
            "labels": labels or {},
            "resourceVersion": "1",
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x"}]},
        "status": {"phase": "Running", "podIP": ip, **more},
    }


def line(kind: str, thing: Any) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


def gone(version: str) -> Any:
    """What the server says of a version that it remembers no more."""
    message = f"too old resource version: {version}"
    return {"kind": "Status", "status": "Failure", "message": message, "reason": "Expired", "code": 410}


class Event(NamedTuple):
    """Something that happened."""

    version: int
    kind: str
    pod: Any


class Cluster:
    """Pods by namespace, and what has happened to them since."""

    def __init__(self, **pods: list[Any]) -> None:
        for namespace, those in pods.items():
            for each in those:
                each["metadata"]["namespace"] = namespace
        self.pods = pods
        self.token = "first"
        self.forbidden: set[str] = set()
        self.asked: list[str] = []
        self.page = 2
        self.version = 7
        self.oldest = 0
        """Versions before this one are forgotten."""
        self.watch: Watch | None = Cluster.events
        """None: watches are forbidden."""
        self.status_of_gone = 200
        self.pages_take_seconds = 0.0
        """Of each page of a list of jobs' pods."""
        self.answering = threading.Event()
        """Cleared: connections are taken, and nothing is answered."""
        self.answering.set()
        self._events: list[Event] = []
        self._bookmarks = 0
        self._news = threading.Condition()
        self.closed = False

    @contextmanager
    def serving(self, tls: ssl.SSLContext | None = None) -> Iterator[str]:
        """Answer on loopback, and end all watches in the end."""
        with http_server(self.answer, tls=tls) as base:
            try:
                yield base
            finally:
                with self._news:
                    self.closed = True
                    self._news.notify_all()

    def answer(self, path: str, headers: Headers) -> tuple[int, Body]:
        """Answer one question."""
        self.answering.wait(30)
        self.asked.append(path)
        asked = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        words = urlsplit(path).path.split("/")
        asked["namespace"] = words[4] if "namespaces" in words else "*"
        if headers.get("Authorization") != f"Bearer {self.token}":
            return 401, b"{}"
        if asked["namespace"] in self.forbidden or ("watch" in asked and self.watch is None):
            return 403, b"{}"
        if "watch" not in asked:
            return 200, self._listed(asked)
        if int(asked["resourceVersion"]) < self.oldest and self.status_of_gone == 410:
            return 410, json.dumps(gone(asked["resourceVersion"])).encode()
        assert self.watch is not None
        return 200, self.watch(self, asked)

    def change(self, kind: str, *things: Any) -> None:
        """Let something happen to pods of one namespace: ADDED, MODIFIED or DELETED."""
        changed = {thing["metadata"]["uid"] for thing in things}
        with self._news:
            there = self.pods.setdefault(things[0]["metadata"]["namespace"], [])
            there[:] = [each for each in there if each["metadata"]["uid"] not in changed]
            for thing in things:
                self.version += 1
                meta = {**thing["metadata"], "resourceVersion": str(self.version)}
                self._events.append(Event(self.version, kind, {**thing, "metadata": meta}))
                if kind != "DELETED":
                    there.append(self._events[-1].pod)
            self._news.notify_all()

    def forget(self) -> None:
        """Remember nothing that has happened so far, as a server does after some minutes."""
        with self._news:
            self.version += 1
            self.oldest = self.version

    def bookmark(self) -> None:
        """Tell all who watch which version it is."""
        with self._news:
            self.version += 1
            self._bookmarks += 1
            self._news.notify_all()

    def events(self, asked: dict[str, str]) -> Iterator[bytes]:
        """What an API server sends: what has happened since a version and what happens now, for the time asked for."""
        known = int(asked["resourceVersion"])
        if known < self.oldest:
            yield line("ERROR", gone(asked["resourceVersion"]))
            return
        ends_at = time.monotonic() + int(asked["timeoutSeconds"])
        told = self._bookmarks
        while not self.closed and time.monotonic() < ends_at:
            with self._news:
                self._news.wait_for(partial(self._has_news, known, told), ends_at - time.monotonic())
                new = [each for each in self._events if each.version > known]
                known, marked, told = self.version, self._bookmarks > told, self._bookmarks
            yield from (line(each.kind, each.pod) for each in new if _fits(each.pod, asked))
            if marked and asked.get("allowWatchBookmarks") == "true":
                yield line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(known)}})

    @property
    def verbs(self) -> set[str]:
        """What was asked for, as rights call it."""
        return {"watch" if "watch=1" in path else "list" for path in self.asked}

    @property
    def lists(self) -> int:
        """How many lists were begun."""
        return sum("watch=1" not in path and "continue=" not in path for path in self.asked)

    @property
    def watches(self) -> int:
        """How many watches were asked for."""
        return sum("watch=1" in path for path in self.asked)

    async def watched(self, times: int = 1) -> None:
        """Wait until so many watches have been asked for."""
        for _ in range(3000):
            if self.watches >= times:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{self.watches} watches were asked for, not {times}")

    def _has_news(self, known: int, told: int) -> bool:
        happened = bool(self._events) and self._events[-1].version > known
        return self.closed or self._bookmarks > told or happened

    def _listed(self, asked: dict[str, str]) -> bytes:
        with self._news:
            found = [each for pods in self.pods.values() for each in pods if _fits(each, asked)]
            version = str(self.version)
        time.sleep(0.0 if "labelSelector" in asked else self.pages_take_seconds)
        start, size = int(asked.get("continue", "0")), min(self.page, int(asked["limit"]))
        more = {"continue": str(start + size)} if start + size < len(found) else {}
        page = {
            "kind": "PodList",
            "metadata": {"resourceVersion": version, **more},
            "items": found[start : start + size],
        }
        return json.dumps(page).encode()


def _fits(thing: Any, asked: dict[str, str]) -> bool:
    meta = thing["metadata"]
    key, _, value = asked.get("labelSelector", "").partition("=")
    return asked["namespace"] in ("*", meta["namespace"]) and (not key or meta["labels"].get(key) == value)
