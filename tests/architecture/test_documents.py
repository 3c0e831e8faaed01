"""The documents tell the truth about the tree."""

import re
import subprocess

import pytest

from cli.main import unhang
from tests.architecture.import_graph import PACKAGES, REPOSITORY

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")

_TOP = {
    *PACKAGES,
    *("deploy", "docs", "tests", ".ci", ".gitignore", "Makefile", "pyproject.toml", "constraints.txt"),
    *("docker-compose.yml", "LICENSE", "REUSE.toml", "SECURITY.md", "CHANGELOG.md", *DOCUMENTS),
}
_LARGEST_BYTES = 1 << 20

# `agent/sources/fds.py`, `tests/programs/`, `deploy/demo/demo.py`; not `/v1/jobs`, `DIR/file` or `a/<name>.py`
_PATH = re.compile(r"`((?:agent|cli|collector|shared|deploy|docs|tests)/[\w./-]*)`")
# `make demo`, `make test PYTEST_ARGS=...`, and the same at the start of a line of a code block
_MAKE = re.compile(r"(?:`|^ *)make ([a-z]+)", re.MULTILINE)
# unhang diagnose JOB --collector URL    # a remark
_COMMAND = re.compile(r"^ {4}(?:srun .* )?unhang ([a-z-]+)([^#\n]*)", re.MULTILINE)
_OPTION = re.compile(r"(?<= )--?[a-z][a-z-]*")
# test: $(INSTALLED) ## run all tests
_TARGET = re.compile(r"^([a-z]+):.*## ", re.MULTILINE)


def text_of(document: str) -> str:
    """Return what `document` says."""
    return (REPOSITORY / document).read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_exist(document: str) -> None:
    """A path that a document names is there."""
    missing = [path for path in _PATH.findall(text_of(document)) if not (REPOSITORY / path).exists()]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_exist(document: str) -> None:
    """A `make` command that a document names is a target."""
    unknown = set(_MAKE.findall(text_of(document))) - set(_TARGET.findall(text_of("Makefile")))
    assert unknown == set()


def test_newcomers_commands_are_in_the_readme_and_ci_runs_them() -> None:
    """The README's two commands are the real ones, and CI calls the one that tests."""
    assert {"demo", "test"} <= set(_MAKE.findall(text_of("README.md")))
    assert re.search(r"^make test$", text_of(".ci/run"), re.MULTILINE)


def test_commands_of_the_readme_exist() -> None:
    """Each `unhang` command in the README is one, and has the options that it is given there."""
    found = _COMMAND.findall(text_of("README.md"))
    assert {"agent", "collector", "diagnose", "run", "snapshot"} <= {name for name, _ in found}
    for name, rest in found:
        options = {option for parameter in unhang.commands[name].params for option in parameter.opts}
        given = set(_OPTION.findall(rest.partition(" -- ")[0]))
        assert given <= options, name


def test_check_is_what_ci_runs() -> None:
    """`make check` and CI run the same targets, so that a green check stays green there."""
    (check,) = re.findall(r"^check: (.+) ##", text_of("Makefile"), re.MULTILINE)
    _, commands = text_of(".ci/run").split("export UNHANG_NO_SKIPS=1")
    in_ci = " ".join(re.findall(r"^make ([a-z ]+)$", commands, re.MULTILINE))
    assert check.split() == in_ci.split()


def test_architecture_is_one_page_and_names_every_package() -> None:
    """The page shows each top-level package, and stays a page."""
    page = text_of("ARCHITECTURE.md")
    assert all(f"`{package}/`" in page or f"{package}/" in page for package in PACKAGES)
    assert len(page.splitlines()) <= 95


def test_changelog_has_the_version_of_the_sources() -> None:
    """What is about to be released is described."""
    import shared

    assert f"## [{shared.VERSION}]" in text_of("CHANGELOG.md") or "## [Unreleased]" in text_of("CHANGELOG.md")


def test_nothing_is_kept_that_a_run_has_left() -> None:
    """Only what the documents know stands at the top of the tree, and no file in it is huge."""
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=REPOSITORY, capture_output=True, text=True, check=False)
    files = [REPOSITORY / name for name in listed.stdout.split("\0") if name]
    if not files:
        pytest.skip("this is no checkout of git")
    at_the_top = {file.relative_to(REPOSITORY).parts[0] for file in files}
    assert at_the_top - _TOP == set()
    assert [str(file) for file in files if file.exists() and file.stat().st_size > _LARGEST_BYTES] == []
