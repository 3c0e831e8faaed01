"""The tests can be listed on a machine that has nothing but Python and what is installed for it."""

import re
import shutil
from pathlib import Path

from tests.architecture.import_graph import REPOSITORY, imports_of
from tests.needed import packages

FOUND_WHEN_LISTED = shutil.which("sh")


def test_no_program_is_found_while_tests_are_listed() -> None:
    """Who looks for one then finds none on any machine; it is a test that is skipped where a program is absent."""
    assert FOUND_WHEN_LISTED is None
    assert shutil.which("sh") is not None


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
