"""Checks a row of the table against its PyTorch: two ranks hang in a job, and what their memory holds by the table
alone must be what PyTorch tells of itself.

A wheel for CUDA runs on stand-ins for CUDA (`deploy/lab`), so that what issues, records and watches collectives is
PyTorch's own code. What was compared is returned, to be written into the table.
"""

import base64
import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

from deploy.lab.standins import build
from deploy.layouts.libraries import Symbol, symbols
from deploy.layouts.probe import Structure
from deploy.layouts.verify.read_back import Memory, Reader, read_groups, read_recorder
from deploy.layouts.wheels import Installed

_JOB = Path(__file__).parent / "job.py"
_RANKS = 2
_PATIENCE_SECONDS = 600
_NOT_READ = {"frames", "thread_id", "duration_ms"}


class Differs(Exception):
    """What was read is not what PyTorch says."""


def check(installed: Installed, structures: Mapping[str, Structure]) -> dict[str, int]:
    """Return how many objects in memory are as PyTorch says, by what they are. Raises Differs.

    One for CUDA must have been fetched: where CUDA's libraries are installed, too, PyTorch takes those.
    """
    compared: dict[str, int] = {}
    named = {library.name: symbols(library) for library in installed.libraries}
    with TemporaryDirectory(prefix="unhang-layouts-") as folder, _job(installed, Path(folder)) as ranks:
        told = [_told(process) for process in ranks]
        for rank, process in enumerate(ranks):
            memory = Memory(process.pid)
            for what, count in _compare(named, Reader(memory, structures), told[rank]):
                compared[what] = compared.get(what, 0) + count
            memory.close()
    dumped = {f"entries in {name}" for each in told for name in each["dumps"]}
    if missing := dumped - compared.keys():
        raise Differs(f"nothing in memory is the {', '.join(missing)}")
    return {what: count for what, count in sorted(compared.items()) if count}


@contextmanager
def _job(installed: Installed, folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    names = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(_RANKS)}
    names |= {"GLOO_SOCKET_IFNAME": "lo", "TORCH_NCCL_TRACE_BUFFER_SIZE": "32", "PYTHONPATH": str(installed.site)}
    names["TORCH_CPP_LOG_LEVEL"] = "ERROR"
    if installed.cuda is not None:
        build(installed.site, folder)
        names |= {"LD_LIBRARY_PATH": str(folder), "LAB_FOLDER": str(folder)}
    ranks = [_rank({**os.environ, **names, "RANK": str(rank)}) for rank in range(_RANKS)]
    try:
        yield ranks
    finally:
        for process in ranks:
            process.kill()
            process.communicate()


def _rank(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        (sys.executable, "-W", "ignore", str(_JOB)), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


def _told(process: subprocess.Popen[bytes]) -> Mapping[str, Any]:
    """Return what a rank says of itself; NCCL prints its version before that."""
    assert process.stdout is not None
    watch = Timer(_PATIENCE_SECONDS, process.kill)
    watch.start()
    for line in process.stdout:
        if line.startswith(b"{"):
            watch.cancel()
            told: Mapping[str, Any] = json.loads(line)
            return told
    watch.cancel()
    raise Differs("the job with this PyTorch ended too early")


def _compare(
    named: Mapping[str, Sequence[Symbol]], reader: Reader, told: Mapping[str, Any]
) -> Iterator[tuple[str, int]]:
    for library, found in named.items():
        base = reader.memory.base(library)
        where = {symbol.kind: base + symbol.address for symbol in found}
        recorders = {library: reader.memory.number(where["recorder"])} if "recorder" in where else {}
        recorders |= reader.registry(where["registry"]) if "registry" in where else {}
        for name in recorders.keys() & told["dumps"].keys():
            dump = pickle.loads(base64.b64decode(told["dumps"][name]))
            yield f"entries in {name}", _compare_recorder(reader, recorders[name], dump)
        for kind in {group["kind"] for group in told["groups"]} & where.keys():
            expected = [group for group in told["groups"] if group["kind"] == kind]
            yield f"{kind} groups", _compare_groups(reader, kind, where[kind], expected)


def _compare_recorder(reader: Reader, recorder: int, dump: Mapping[str, Any]) -> int:
    found = read_recorder(reader, recorder)
    _same(len(found), len(dump["entries"]), "number of entries")
    for mine, theirs in zip(found, dump["entries"], strict=True):
        for field in mine.keys() & theirs.keys():
            _same(mine[field], theirs[field], field)
        if missing := theirs.keys() - mine.keys() - _NOT_READ:
            raise Differs(f"entries have fields that nothing reads: {missing}")
    return len(found)


def _compare_groups(reader: Reader, kind: str, vtable: int, expected: list[Mapping[str, Any]]) -> int:
    found = read_groups(reader, kind, vtable)
    for group in expected:
        alike = [
            one
            for one in found
            if all(one.get(field, group[field]) == group[field] for field in group.keys() - {"kind"})
        ]
        if not alike:
            raise Differs(f"no such {kind} group in memory: {group}; but {found}")
    return len(expected)


def _same(mine: object, theirs: object, what: str) -> None:
    if mine != theirs:
        raise Differs(f"{what}: read {mine}, but PyTorch says {theirs}")
