"""Watches of API servers, and of what stands before them, that are none."""

import time
from collections.abc import Iterator

from tests.build.services.kubernetes_cluster import Cluster, Watch, gone, line


def nothing(cluster: Cluster, asked: dict[str, str]) -> Iterator[bytes]:
    """A watch that begins, says nothing and does not end in its time."""
    while not cluster.closed:
        time.sleep(0.02)
    yield from ()


def ends_at_once(cluster: Cluster, asked: dict[str, str]) -> Iterator[bytes]:
    """A watch that is over before it began."""
    yield from ()


def always_gone(cluster: Cluster, asked: dict[str, str]) -> Iterator[bytes]:
    """Every version is too old, also that of the list just given."""
    yield line("ERROR", gone(asked["resourceVersion"]))


def trouble_within(cluster: Cluster, asked: dict[str, str]) -> Iterator[bytes]:
    """The server has a trouble of its own."""
    yield line("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcdserver: no leader"})


def says(told: bytes) -> Watch:
    """A watch that says this and waits."""

    def watch(cluster: Cluster, asked: dict[str, str]) -> Iterator[bytes]:
        yield told

    return watch


BROKEN: dict[str, Watch | None] = {
    "forbidden": None,
    "silent": nothing,
    "ends at once": ends_at_once,
    "always gone": always_gone,
    "trouble within": trouble_within,
    "no JSON": says(b"<html>proxy</html>\n"),
    "no change": says(b'{"type": "ADDED"}\n'),
    "no object": says(b'{"type": "ADDED", "object": 7}\n'),
    "unknown type": says(line("RENAMED", {"metadata": {"name": "x", "resourceVersion": "9"}})),
    "no version": says(b'{"type": "ADDED", "object": {"metadata": {"name": "x"}}}\n'),
    "endless version": says(line("BOOKMARK", {"metadata": {"resourceVersion": "9" * 10_000}})),
    "deep": says(b'{"type": "ADDED", "object": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}\n"),
    "half characters": says(b'{"type": "ADDED", "object": {"metadata": {"name": "\\ud800"}}}\n'),
    "endless line": says(b"x" * 9_000_000),
    "binary": says(bytes(range(256))),
}
