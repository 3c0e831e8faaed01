"""Why no worker server answers in a rank: what to say to somebody who has started the job with `unhang run`, too."""

import json
import os
import re

from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.job_files import open_named
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted
from shared.value import whole_texts

_WITHOUT_TORCH = (
    "the rank has not loaded PyTorch, which keeps the record: it is still starting, or uses another framework"
)
_NOT_LOADED = (
    "no worker server in the rank answers either; start the job with `unhang run -- …`, "
    "or with PYTHONPATH=$(unhang probe-path), to see sequence numbers"
)
_IGNORED = (
    "the job was started with the probe on PYTHONPATH, and Python with `{}`, which leaves that out; start it without "
    "the option to see sequence numbers"
)
_TOO_EARLY = (
    "the probe is loaded; it opens its server once the rank calls init_process_group, which it has not done yet"
)
_NO_SERVER = (
    "the job was started with the probe on PYTHONPATH, and the rank has no server: another program took the variable "
    "away, or /tmp/unhang-{0} is not a directory of user {0} alone; name another one in UNHANG_PROBE_DIR"
)
_PROBE = re.compile(rb"(?:^|:)[^:]*/agent/probe/inside/?(?:$|:)")
_IGNORES_PATH = re.compile(r"-(?![WX])[A-Za-z]*[IES][A-Za-z]*")
"""Options of Python's that leave out PYTHONPATH (-I, -E), or what is imported by itself at start (-S)."""
_TAKES_WORD = ("-W", "-X")


def why_no_server(procfs: ProcFs, rank: Rank) -> str:
    """Return the reason, and what to do. Raises Gone or NotPermitted."""
    pid = rank.stat.pid
    uid = procfs.fields(pid, "status").get("Uid", "0").split()[0]
    failure = _failure(procfs, pid, uid)
    if failure is not None:
        return failure
    if not _has_probe(procfs, pid):
        return _NOT_LOADED if b"/libtorch" in procfs.maps(pid) else _WITHOUT_TORCH
    option = _ignoring_option(procfs.text(pid, "cmdline", most=8192).split("\0"))
    if option is not None:
        return _IGNORED.format(option)
    return _NO_SERVER.format(uid) if rank.has_group else _TOO_EARLY


def _has_probe(procfs: ProcFs, pid: int) -> bool:
    """Is the probe on the PYTHONPATH with which the program was started?"""
    variables = procfs.read(pid, "environ").split(b"\0")
    paths = (text.partition(b"=")[2] for text in variables if text.startswith(b"PYTHONPATH="))
    return any(_PROBE.search(path) for path in paths)


def _ignoring_option(arguments: list[str]) -> str | None:
    """Return the option with which Python leaves the probe out; None where there is none before the script."""
    before = ""
    for word in arguments[1:]:
        if before in _TAKES_WORD:
            before = ""
            continue
        if not word.startswith("-") or word in ("-c", "-m"):
            return None
        if _IGNORES_PATH.fullmatch(word):
            return word
        before = word
    return None


def _failure(procfs: ProcFs, pid: int, uid: str) -> str | None:
    """Return what our probe has left word of where it could not open a server."""
    path = f"/tmp/unhang-{uid}/{procfs.inner_pid(pid)}.status.json"
    try:
        with open_named(procfs, pid, path, readers_of(procfs, pid)) as opened:
            error = whole_texts(json.loads(os.pread(opened, 4096, 0))["error"])
    except (Gone, NotPermitted, Unavailable, ValueError, KeyError, TypeError, RecursionError):
        return None
    return f"the probe in this rank could not open its server: {str(error)[:300]}"
