"""Folders of files as people collect them: dumps, snapshots, stacks and archives."""

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from shared.wire.snapshot import NodeSnapshot, RankSnapshot
from tests.build.agents.fake_agents import CASES

PYSPY_JSON = json.dumps(
    [
        {
            "pid": 4242,
            "thread_id": 1,
            "thread_name": "MainThread",
            "os_thread_id": 4242,
            "active": False,
            "owns_gil": False,
            "frames": [{"name": "load", "filename": "/srv/data.py", "module": None, "line": 7, "locals": None}],
            "process_info": None,
        }
    ]
)


def write_files(folder: Path, files: Mapping[str, bytes | str]) -> Path:
    """Write files by their names below a folder, and return that."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def dump_file(rank: int, case: str = "missing_rank2") -> bytes:
    """A recorder's dump."""
    return (CASES / case / f"_dump_{rank}").read_bytes()


def snapshot_file(host: str, *ranks: RankSnapshot, at: int = 1) -> bytes:
    """One of our own snapshots."""
    return NodeSnapshot(host=host, taken_at_ns=at, ranks=ranks).model_dump_json().encode()


def tar_gz(members: Mapping[str, bytes]) -> bytes:
    """An archive of files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()
