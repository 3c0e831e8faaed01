"""What an install brings: a node without extras no database and no template engine; an editable one no copies."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.packaging.environments import (
    REPOSITORY,
    RUN_SECONDS,
    Environment,
    install,
    lend,
    lend_libraries,
    make_environment,
    needed,
    run_here,
)

LEFT_OUT = {"alembic", "jinja2", "mako", "markupsafe", "mcp", "psycopg", "sqlalchemy"}

RULES = REPOSITORY / "tests" / "data" / "rules"
PACKAGE = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "acme-unhang"
version = "1"
entry-points."unhang.rules".acme = "acme_unhang"
"""
LABEL = """
import unhang
unhang.read
from unhang._app.collector.align.stacks.tables.match_frames import frame_pattern
print(frame_pattern("wait_lease", "acme/lease.py", native=False).label)
"""
"""Of a frame, as a program that calls `unhang.read` has it told."""

HANG = REPOSITORY / "tests" / "data" / "cases" / "missing_rank2"


@pytest.fixture(scope="session")
def node(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and what it needs without extras, and nothing else."""
    environment = make_environment(tmp_path_factory.mktemp("node") / "environment")
    install(environment, wheel)
    lend(environment, needed())
    return environment


def test_libraries_of_extras_are_left_out() -> None:
    """They are those of the collector, of MCP and of PostgreSQL, however they are brought."""
    assert needed() & LEFT_OUT == set()
    assert needed("mcp", "postgres") >= LEFT_OUT


def test_node_is_looked_at_and_judged_without_extras(node: Environment, tmp_path: Path) -> None:
    """A look at this machine, and a diagnosis of a hang that was kept."""
    node.run("unhang", "snapshot", "--allow-empty", "--output", "looks", cwd=tmp_path)
    assert list((tmp_path / "looks").iterdir())
    command = (node.folder / "bin" / "unhang", "diagnose", "--from", str(HANG))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 10, done.stderr
    assert "rank 2 has not joined" in done.stdout


def test_package_brings_rules(node: Environment, tmp_path: Path) -> None:
    """As a site would make one: files of TOML, an entry point, and pip."""
    source = tmp_path / "acme-unhang"
    shutil.copytree(RULES, source / "acme_unhang")
    (source / "acme_unhang" / "__init__.py").touch()
    (source / "pyproject.toml").write_text(PACKAGE, encoding="utf-8")
    run_here(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), cwd=source)
    (built,) = tmp_path.glob("*.whl")
    install(node, built)
    explained = node.run("unhang", "rules", "explain", "wait_lease (acme/lease.py:41)", cwd=tmp_path)
    assert "waiting for a lease of Acme's data service" in explained
    assert "acme/acme.toml" in node.run("unhang", "rules", "list", cwd=tmp_path)
    assert node.run("python", "-c", LABEL, cwd=tmp_path) == "waiting for a lease of Acme's data service\n"


@pytest.mark.parametrize(
    ("arguments", "lacking", "extra"),
    [
        (("collector",), "sqlalchemy", "collector"),
        (("diagnose", "--html", "page.html"), "jinja2", "collector"),
        (("mcp", "--collector", "http://localhost:9"), "mcp", "mcp"),
        (("mcp",), "mcp", "mcp"),
    ],
)
def test_command_of_an_extra_says_which(
    node: Environment, tmp_path: Path, arguments: tuple[str, ...], lacking: str, extra: str
) -> None:
    """At once, before anything is looked at or opened."""
    command = (node.folder / "bin" / "unhang", *arguments)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_SECONDS, input="")
    assert (done.returncode, done.stdout) == (1, "")
    advice = [f"unhang: the package `{lacking}` is not installed", f"  pip install 'unhang[{extra}]'"]
    assert done.stderr.splitlines() == advice
    assert list(tmp_path.iterdir()) == []


BUILT_FROM = ("agent", "cli", "collector", "shared", "deploy", "pyproject.toml", "README.md", "LICENSE")

BUILD = "import sys, hatchling.build; hatchling.build.build_editable(sys.argv[1])"
"""What pip calls for `pip install -e .` (PEP 660)."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree that a test may edit."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in BUILT_FROM:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


@pytest.fixture(scope="module")
def editable(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the copy installed as `pip install -e` does it."""
    folder = tmp_path_factory.mktemp("editable")
    run_here(sys.executable, "-c", BUILD, str(folder), cwd=checkout)
    (wheel,) = folder.glob("*.whl")
    environment = make_environment(folder / "environment")
    install(environment, wheel)
    lend_libraries(environment)
    return environment


def test_command_follows_an_edit_of_the_sources(checkout: Path, editable: Environment, tmp_path: Path) -> None:
    """What is changed in the checkout is what runs, without installing again."""
    source = checkout / "shared" / "__init__.py"
    text = source.read_text(encoding="utf-8")
    before = editable.run("unhang", "version", cwd=tmp_path)
    source.write_text(text.replace('VERSION = "', 'VERSION = "77.'), encoding="utf-8")
    try:
        assert editable.run("unhang", "version", cwd=tmp_path) != before
        assert "77." in editable.run("unhang", "version", cwd=tmp_path)
    finally:
        source.write_text(text, encoding="utf-8")


def test_nothing_is_copied_but_the_launcher(editable: Environment) -> None:
    """A stale copy of the sources would run instead of them."""
    ours = [path for path in editable.site_packages.rglob("*.py") if "dist-info" not in str(path)]
    assert [str(path.relative_to(editable.site_packages)) for path in ours] == ["unhang/__init__.py"]
