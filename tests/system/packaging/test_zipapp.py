"""`unhang.pyz`: one file, and any Python without any libraries beside it."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.files.read_directory import read_directory
from deploy.zipapp.targets import PYTHONS
from shared import VERSION
from shared.wire.stacks import Stacks
from tests.build.processes.memory_files import in_memory
from tests.system.packaging.environments import RUN_SECONDS

pytestmark = pytest.mark.release

MOST_BYTES = 32 * 2**20
BARE = (str(Path(sys.executable).resolve()), "-I", "-S")
"""The Python that runs the tests, without site-packages, without the environment's say."""


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the archive lays itself out, a thousand files; at the end of each test nothing is left there."""
    with tempfile.TemporaryDirectory(prefix="unhang-place-", dir=in_memory()) as folder:
        yield Path(folder)
        assert os.listdir(folder) == []


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
        saved = run(zipapp, place, "diagnose", "--save", str(tmp_path / "kept"), "--looks", "1", **only)
        sleeper.kill()
    assert saved.returncode in (0, 10, 11, 12), saved.stderr
    (bundle,) = (tmp_path / "kept").iterdir()
    snapshots, _ = read_directory(bundle)
    seen = [rank.stacks for snapshot in snapshots for rank in snapshot.ranks]
    assert seen and all(isinstance(stacks, Stacks) and stacks.threads for stacks in seen)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_ended_by_a_signal(zipapp: Path, place: Path, number: signal.Signals) -> None:
    """The directory is removed then, too; while it is there nobody else may look into it."""
    command = [*BARE, str(zipapp), "snapshot", "-o", "-", "--allow-empty", "--looks", "2", "--interval", "60"]
    env = {"TMPDIR": str(place), "UNHANG_AGENT_ONLY_RANKS": "999999"}  # other tests' ranks need no look
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    (laid_out,) = place.iterdir()
    assert laid_out.stat().st_mode & 0o777 == 0o700
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (128 + number, b"")


def pythons() -> set[str]:
    """Return every Python that a caller here might take, by its real path; wrappers that start none are left out."""
    names = ("python2", "python3", *(f"python3.{minor}" for minor in range(6, 18)))
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    managed = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    with contextlib.suppress(OSError):
        folders += [version / "bin" for version in managed.iterdir()]
    there = [path for name in names for folder in folders if os.access(path := folder / name, os.X_OK)]
    ask = ("-c", "import sys; print(sys.executable)")
    asked = [subprocess.run((path, *ask), capture_output=True, text=True, timeout=60) for path in there]
    return {os.path.realpath(done.stdout.strip()) for done in asked if done.returncode == 0} | {BARE[0]}


REFUSED = (
    r"this unhang.pyz is for Python 3.11, 3.12, 3.13, 3.14 on x86_64, aarch64, .+; here is (.+): call it with .*\n"
)


def test_any_python_runs_it_or_is_refused_in_a_sentence(zipapp: Path, place: Path) -> None:
    """Those of this machine, whatever libraries they have or lack; those of 3.11 to 3.14 run it."""
    env = {"PATH": "/nonexistent", "TMPDIR": str(place), "HOME": "/nonexistent"}
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    for python in pythons():
        version = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=60).stdout.strip()
        done = subprocess.run([python, zipapp, "version"], env=env, capture_output=True, text=True, timeout=RUN_SECONDS)
        if version in PYTHONS:
            assert (done.returncode, done.stderr) == (0, ""), (python, done)
            assert VERSION in done.stdout
        else:
            assert done.returncode == 1 and re.fullmatch(REFUSED, done.stderr), (python, done)


@pytest.mark.parametrize(
    ("difference", "named"),
    [
        ("os.confstr = lambda _: 'glibc 2.12'", "glibc 2.12 on Linux"),
        ("os.confstr = lambda _: int('unrecognized configuration name')", "a Python without glibc on Linux"),
        ("os.uname = lambda: ('Linux', 'here', '6', '#1', 'ppc64le')", "on Linux ppc64le"),
        ("os.uname = lambda: ('Darwin', 'here', '25', '#1', 'arm64')", "on Darwin arm64"),
        ("sys.version_info = (3, 15, 0)", "Python 3.15 on Linux"),
        ("sys.implementation.name = 'pypy'", "pypy on Linux"),
        ("sys.abiflags = 't'", "a free-threaded Python on Linux"),
        ("sys.maxsize = 2**31 - 1", "a 32-bit Python on Linux"),
    ],
)
def test_where_its_wheels_do_not_fit(zipapp: Path, place: Path, difference: str, named: str) -> None:
    """Pythons and systems that are not here: one sentence, before anything is laid out."""
    program = f"import os, runpy, sys; {difference}; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    command = [*BARE, "-c", program, str(zipapp), "version"]
    done = subprocess.run(command, env={"TMPDIR": str(place)}, capture_output=True, text=True, timeout=60)
    match = re.fullmatch(REFUSED, done.stderr)
    assert done.returncode == 1 and match, done
    assert named in match[1]


def test_starts_at_the_same_time(zipapp: Path, place: Path) -> None:
    """Each in a directory of its own."""
    command = [*BARE, str(zipapp), "version"]
    env = {"TMPDIR": str(place)}
    started = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(4)]
    said = [process.communicate(timeout=RUN_SECONDS)[0] for process in started]
    assert all(VERSION.encode() in each for each in said), said


def test_no_room(zipapp: Path, place: Path) -> None:
    """A file that cannot be written, as on a full disk: one sentence, and nothing is left."""

    def no_large_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        [*BARE, str(zipapp), "version"],
        env={"TMPDIR": str(place)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        preexec_fn=no_large_files,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"unhang.pyz cannot be laid out in {place}/unhang-\w+: File too large\n", done.stderr)


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
