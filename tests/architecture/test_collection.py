"""The tests can be listed on a machine that has nothing but Python and what is installed for it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.import_graph import REPOSITORY, imports_of
from tests.needed import packages


@pytest.mark.slow
def test_collection_needs_no_programs(tmp_path: Path) -> None:
    """With Python alone on PATH: a program that is absent skips a test when it runs, and is not looked for before."""
    (tmp_path / "python3").symlink_to(sys.executable)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "UNHANG"))}
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-n", "0"),
        cwd=REPOSITORY,
        env={**kept, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:]
    assert "error" not in done.stdout.splitlines()[-1]


def test_workers_do_not_import_torch() -> None:
    """In a process that has PyTorch each `unhang` on its machine looks for a process group, which takes a second."""
    files = (file for name in ("test_*.py", "conftest.py") for file in (REPOSITORY / "tests").rglob(name))
    found = [str(one) for file in files for one in imports_of(file) if one.name.partition(".")[0] == "torch"]
    assert found == []


def folders(variable: str) -> set[Path]:
    """Return the folders that a variable of the Makefile names."""
    text = (REPOSITORY / "Makefile").read_text(encoding="ascii").replace("\\\n", " ")
    (named,) = re.findall(rf"^{variable} := (.+)$", text, re.MULTILINE)
    return {REPOSITORY / name for name in named.split()}


def test_steady_tests_are_where_make_looks_for_them() -> None:
    """Each test is run by one of the two lanes of `make test`."""
    steady = folders("STEADY")
    assert all(folder.is_dir() for folder in steady)
    for file in (REPOSITORY / "tests").rglob("test_*.py"):
        marked = re.search(r"\bmark\.steady\b", file.read_text(encoding="utf-8"))
        assert marked is None or not steady.isdisjoint(file.parents), file


def test_ci_installs_what_tests_need() -> None:
    """One list for both, so that nothing is skipped there."""
    assert "tests/debian-packages" in (REPOSITORY / ".ci" / "run").read_text(encoding="ascii")
    assert packages()["logrotate"] == "logrotate"
