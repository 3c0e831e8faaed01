"""Tries the files of a release in empty environments: as a node, as a collector with a store, as one file."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
HANG = REPOSITORY / "tests" / "data" / "cases" / "missing_rank2"
HUNG = 10
_START_SECONDS = 60.0
_PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")

# A process that says it is a rank, for a job that services can be asked about.
_RANK = "import time; time.sleep(600)"
_JOB = "release"


class Failed(Exception):
    """A step did not do what it is there for."""


def run(*command: str, folder: Path, status: int = 0, environment: dict[str, str] | None = None) -> str:
    """Return what a command prints. Raises Failed, with its output, where it ends with another status."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL
    )
    if done.returncode != status:
        said = (done.stdout + done.stderr)[-3000:]
        raise Failed(f"`{' '.join(command)}` ended with {done.returncode}, not {status}:\n{said}")
    return done.stdout


def try_all(files: Sequence[Path], folder: Path, version: str) -> None:
    """Install and use each file. Raises Failed at the first that does not work."""
    (wheel,) = (file for file in files if file.suffix == ".whl")
    (zipapp,) = (file for file in files if file.suffix == ".pyz")
    run("sha256sum", "--check", "--strict", "SHA256SUMS", folder=wheel.parent)
    print("trying a node: no extra, and no database with it", flush=True)
    _try_node(_installed(folder / "node", wheel, "node.txt"), version)
    print("trying a collector: a diagnosis is kept, found after a restart, and a later store is refused", flush=True)
    _try_collector(_installed(folder / "services", wheel, "services.txt"), folder)
    pythons = [python for python in _PYTHONS if _runs(python)]
    print(f"trying unhang.pyz with {', '.join(pythons) or 'this Python'}", flush=True)
    for python in pythons or [sys.executable]:
        run(python, str(zipapp), "diagnose", "--from", str(HANG), folder=folder, status=HUNG)


def _runs(python: str) -> bool:
    """Is it there? pyenv puts a script in the place of each Python that it could run if one had chosen it."""
    found = shutil.which(python)
    return found is not None and subprocess.run((found, "--version"), capture_output=True, check=False).returncode == 0


def _installed(folder: Path, wheel: Path, listed: str) -> Path:
    """Install as the image and the systemd guide do, by hashes; return the folder with the programs."""
    venv.create(folder, with_pip=True)
    pip = (str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check")
    hashes = ("--require-hashes", "--only-binary", ":all:", "-r", str(REPOSITORY / "deploy" / "locked" / listed))
    run(*pip, *hashes, folder=folder)
    run(*pip, "--no-deps", "--no-index", str(wheel), folder=folder)
    return folder / "bin"


def _try_node(programs: Path, version: str) -> None:
    unhang = str(programs / "unhang")
    if version not in run(unhang, "version", folder=programs):
        raise Failed(f"`unhang version` is not {version}")
    run(unhang, "diagnose", "--from", str(HANG), folder=programs, status=HUNG)
    run(unhang, "snapshot", "--allow-empty", "--looks", "1", "--output", "-", folder=programs)
    run(str(programs / "python"), "-c", "import sqlalchemy", folder=programs, status=1)


def _try_collector(programs: Path, folder: Path) -> None:
    store, agent, own = folder / "store.sqlite3", _free_port(), _free_port()
    agents = ("--agents", f"127.0.0.1:{agent}", "--store", str(store))
    variables = {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": _JOB, "MASTER_ADDR": "127.0.0.1"}
    with _running(sys.executable, "-c", _RANK, environment={**os.environ, **variables, "MASTER_PORT": "1"}):
        with _serving(programs, "agent", agent), _serving(programs, "collector", own, *agents):
            kept = _asked(own, f"/v1/jobs/{_JOB}/diagnoses?wait=60", post=True)["id"]
        with _serving(programs, "collector", own, *agents):
            if [each["id"] for each in _asked(own, "/v1/diagnoses")["diagnoses"]] != [kept]:
                raise Failed("the diagnosis is gone after a restart of the collector")
    with closing(sqlite3.connect(store)) as opened, opened:
        opened.execute("UPDATE alembic_version SET version_num = '9999'")
    refused = subprocess.run(
        (str(programs / "unhang"), "collector", "--listen", f"127.0.0.1:{own}", *agents),
        capture_output=True, text=True, timeout=_START_SECONDS, check=False,
    )  # fmt: skip
    if refused.returncode != 1 or "use the version of unhang that wrote it" not in refused.stderr:
        raise Failed(f"a store of a later release is not refused in words: {refused.stderr}")


@contextmanager
def _serving(programs: Path, service: str, port: int, *options: str) -> Iterator[None]:
    """Run a service until the end of the context. Raises Failed where it does not answer in a minute."""
    command = (str(programs / "unhang"), service, "--listen", f"127.0.0.1:{port}", *options)
    with _running(*command) as process:
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                _asked(port, "/healthz")
                break
            except OSError as error:
                if time.monotonic() > until or process.poll() is not None:
                    raise Failed(f"`{' '.join(command)}` does not serve: {error}") from error
                time.sleep(0.1)
        yield


@contextmanager
def _running(*command: str, environment: dict[str, str] | None = None) -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


def _asked(port: int, path: str, *, post: bool = False) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method="POST" if post else "GET")
    with urllib.request.urlopen(request, timeout=_START_SECONDS + 60.0) as answer:
        return json.load(answer)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
