"""`unhang.pyz`: one file, and a Python without any libraries beside it."""

import hashlib
import os
import re
import resource
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared import VERSION
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Stacks
from tests.system.packaging.environments import REPOSITORY, RUN_SECONDS, run_here

MOST_BYTES = 16_000_000
BARE = (str(Path(sys.executable).resolve()), "-I", "-S")
"""The Python that runs the tests, without site-packages, without the environment's say."""


@pytest.fixture(scope="module")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, built as `make zipapp` does."""
    target = tmp_path_factory.mktemp("zipapp") / "unhang.pyz"
    run_here(sys.executable, "-m", "deploy.zipapp.build", str(target))
    return target


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where the archive lays itself out; at the end of each test nothing is left there."""
    folder = tmp_path / "place"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


def run(zipapp: Path, place: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run the archive in an empty environment."""
    env = {"PATH": "/nonexistent", "TMPDIR": str(place), "HOME": "/nonexistent", **more}
    return subprocess.run([*BARE, str(zipapp), *arguments], env=env, capture_output=True, timeout=RUN_SECONDS)


def test_it_runs_beside_nothing(zipapp: Path, place: Path) -> None:
    """The interpreter has no libraries; the archive brings them, of a bearable size."""
    bare = subprocess.run([*BARE, "-c", "import pydantic"], capture_output=True, timeout=60)
    assert b"ModuleNotFoundError" in bare.stderr
    assert VERSION.encode() in run(zipapp, place, "version").stdout
    assert zipapp.stat().st_size < MOST_BYTES


@pytest.mark.ptrace
def test_looks_with_a_py_spy_of_its_own(zipapp: Path, place: Path, tmp_path: Path) -> None:
    """A rank's stack, although no py-spy is on the path, and what was seen is judged and kept."""
    rank = 900_000 + os.getpid() % 90_000
    variables = {"RANK": str(rank), "WORLD_SIZE": "1000000", "MASTER_ADDR": "here"}
    program = [sys.executable, "-c", "print(flush=True); input()"]
    sleeper = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables)
    with sleeper:
        assert sleeper.stdout is not None
        sleeper.stdout.readline()
        only = {"UNHANG_AGENT_ONLY_RANKS": str(rank)}
        taken = run(zipapp, place, "snapshot", "-o", "-", "--looks", "1", **only)
        saved = run(zipapp, place, "diagnose", "--save", str(tmp_path / "kept"), "--looks", "1", **only)
        sleeper.kill()
    (seen,) = NodeSnapshot.model_validate_json(taken.stdout).ranks
    assert isinstance(seen.stacks, Stacks)
    assert seen.stacks.threads
    assert saved.returncode in (0, 10, 11, 12), saved.stderr
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_ended_by_a_signal(zipapp: Path, place: Path, number: signal.Signals) -> None:
    """The directory is removed then, too."""
    command = [*BARE, str(zipapp), "snapshot", "-o", "-", "--allow-empty", "--looks", "2", "--interval", "60"]
    process = subprocess.Popen(command, env={"TMPDIR": str(place)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (128 + number, b"")


def test_another_python_is_told_in_a_sentence(zipapp: Path, place: Path, tmp_path: Path) -> None:
    """Its extension modules fit one version."""
    other = tmp_path / "other.pyz"
    with zipfile.ZipFile(zipapp) as archive, zipfile.ZipFile(other, "w") as changed:
        changed.writestr("__main__.py", archive.read("__main__.py"))
        changed.writestr("BUILT_FOR", "cpython-399 abacus")
    done = run(other, place, "version")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"is for cpython-399 abacus" in done.stderr
    assert b"Traceback" not in done.stderr


def pythons() -> set[str]:
    """Return every Python that a caller here might take, by its real path; wrappers that start none are left out."""
    names = ("python2", "python3", *(f"python3.{minor}" for minor in range(6, 16)))
    folders = os.environ["PATH"].split(os.pathsep)
    there = [path for name in names for folder in folders if os.access(path := f"{folder}/{name}", os.X_OK)]
    ask = ("-c", "import sys; print(sys.executable)")
    asked = [subprocess.run((path, *ask), capture_output=True, text=True, timeout=60) for path in there]
    return {os.path.realpath(done.stdout.strip()) for done in asked if done.returncode == 0} | {BARE[0]}


def test_any_python_runs_it_or_is_told_in_a_sentence(zipapp: Path, place: Path) -> None:
    """Those of this machine, whatever libraries they have or lack."""
    env = {"PATH": "/nonexistent", "TMPDIR": str(place), "HOME": "/nonexistent"}
    for python in pythons():
        done = subprocess.run([python, zipapp, "version"], env=env, capture_output=True, text=True, timeout=RUN_SECONDS)
        refused = r"this unhang.pyz is for [\w-]+ \w+, and here is [\w .-]+: call it with .*\n"
        assert (done.returncode, done.stderr) == (0, "") or re.fullmatch(refused, done.stderr), (python, done)
        assert (VERSION in done.stdout) == (done.returncode == 0)


@pytest.mark.parametrize("command", ["collector", "run", "probe-path"])
def test_what_it_is_not_for(zipapp: Path, place: Path, command: str) -> None:
    """Their files would be gone with the directory, or their libraries are not inside."""
    done = run(zipapp, place, command)
    assert done.returncode == 1
    assert b"install unhang" in done.stderr


def test_starts_soon(zipapp: Path, place: Path) -> None:
    """Nothing is kept from one start to the next, so each pays for laying it out: 0.6 s of a core, counted here."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(zipapp, place, "version")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 6


def test_same_environment_same_bytes(zipapp: Path, tmp_path: Path) -> None:
    """Whoever builds it again can compare."""
    again = tmp_path / "unhang.pyz"
    run_here(sys.executable, "-m", "deploy.zipapp.build", str(again), cwd=REPOSITORY)
    with zipfile.ZipFile(zipapp) as one, zipfile.ZipFile(again) as two:
        assert one.namelist() == two.namelist()
    assert hashlib.sha256(zipapp.read_bytes()).digest() == hashlib.sha256(again.read_bytes()).digest()
