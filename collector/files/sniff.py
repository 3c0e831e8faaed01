"""What a file is: recognised by how it begins, never by its name."""

import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice

from collector.files.kernel_files import is_kernel_log

_HEAD = 65_536
"""Bytes that are looked at. Every format here shows itself sooner."""

_MOST_TOKENS = 50_000


class FileKind(StrEnum):
    """The kinds of file that are distinguished."""

    EMPTY = "empty"
    GZIP = "gzip"
    TAR = "tar"
    ZIP = "zip"
    SNAPSHOT = "snapshot"
    DIAGNOSIS = "diagnosis"
    MANIFEST = "manifest"
    RECORDER = "recorder"
    PYSPY_JSON = "pyspy_json"
    RAS = "ras"
    KERNEL = "kernel"
    LOG = "log"
    UNKNOWN_JSON = "unknown_json"
    BINARY = "binary"


_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?|[{}\[\]]|[^"{}\[\]]++')
# NCCL version 2.30.7 compiled with CUDA 12.8, and further down: Job summary; or what was kept of a report, from its
# table on: Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
# Communicators... (0.002s) =============, or from what it found on: Warnings ======== #0-0 (9d2f00c1a7e45b33) MISMATCH
_RAS_TEXT = re.compile(
    r"NCCL version \d\S* compiled with CUDA .{0,2000}?\bJob summary\b|Group +Comms +Nodes +Ranks "
    r"|Communicators\.\.\. \(\d{1,6}\.\d{1,6}s\)\n=+\s"
    r"|RAS Monitor Mode |\[[\d :-]{19}\] PEER_[A-Z]+: Process \d"
    r"|(?:(?:Errors|Warnings)\n=+\s+)+(?:DEAD\n|INCOMPLETE\n|#\d+-\d+ \([0-9a-f]+\) )|#\d+-\d+ \([0-9a-f]+\) [A-Z]",
    re.DOTALL,
)

_HEAD_OF_PASTE = 2000
_MOST_ABOVE = 3
"""Lines above a report that do not hide it."""

_BY_KEYS: tuple[tuple[frozenset[str], FileKind], ...] = (
    (frozenset({"verdict", "headline"}), FileKind.DIAGNOSIS),
    (frozenset({"unhang_bundle"}), FileKind.MANIFEST),
    (frozenset({"schema_version", "agent_version"}), FileKind.SNAPSHOT),
    (frozenset({"communicators_count"}), FileKind.RAS),
    (frozenset({"communicators", "ras"}), FileKind.RAS),
    (frozenset({"group", "event", "peer"}), FileKind.RAS),
    (frozenset({"entries"}), FileKind.RECORDER),
    (frozenset({"pg_config"}), FileKind.RECORDER),
    (frozenset({"pg_status"}), FileKind.RECORDER),
)
"""A JSON object is of the first kind whose keys it all has at its top."""
_OF_A_LINE = frozenset({"message", "msg", "log"})
"""One of these is what a log's line says, where each is an object."""


def kind_of(data: bytes) -> FileKind:
    """Return the kind of the file that holds, or begins with, `data`."""
    head = data[:_HEAD]
    if head[:2] == b"\x1f\x8b":
        return FileKind.GZIP
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return FileKind.ZIP
    if head[257:262] == b"ustar":
        return FileKind.TAR
    if _PICKLE.match(head):
        return FileKind.RECORDER
    if b"\0" in head:
        return FileKind.BINARY
    return _kind_of_text(head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n"))


def _kind_of_text(text: str) -> FileKind:
    if not text:
        return FileKind.EMPTY
    if re.match(r'\{\s*["}]', text):
        return _kind_of_object(text)
    if re.match(r"\[\s*[{\]]", text):
        keys = _keys(text, depth=2)[0]
        if "profiling_name" in keys:
            return FileKind.RECORDER
        return FileKind.PYSPY_JSON if {"frames", "thread_id"} & keys else FileKind.UNKNOWN_JSON
    if any(_RAS_TEXT.match(text, at) for at in _first_lines(text)):
        return FileKind.RAS
    return FileKind.KERNEL if is_kernel_log(text) else FileKind.LOG


def _first_lines(text: str) -> Iterator[int]:
    """Where the first lines begin that hold anything: people write a word of their own above what they paste."""
    lines = re.finditer(r"^(?=.*\S)", text[:_HEAD_OF_PASTE], re.MULTILINE)
    return (line.start() for line in islice(lines, _MOST_ABOVE))


def _kind_of_object(text: str) -> FileKind:
    keys, ended = _keys(text, depth=1)
    for needed, kind in _BY_KEYS:
        if needed <= keys:
            return kind
    follows = text[ended:].lstrip() if ended is not None else ""
    a_log = follows.startswith("{") or (not follows and keys & _OF_A_LINE)  # of one object per line
    return FileKind.LOG if a_log else FileKind.UNKNOWN_JSON


def _keys(text: str, *, depth: int) -> tuple[set[str], int | None]:
    """Return the keys at `depth` of the JSON that begins `text`, and where it ends if it does."""
    keys: set[str] = set()
    level = 0
    for count, token in enumerate(_TOKEN.finditer(text)):
        character = token[0][0]
        if character in "{[":
            level += 1
        elif character in "}]":
            level -= 1
            if level == 0:
                return keys, token.end()
        elif token[2] is not None and level == depth:
            keys.add(token[1])
        if count >= _MOST_TOKENS:
            break
    return keys, None
