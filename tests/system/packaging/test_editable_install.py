"""The editable install: it follows the sources and keeps no copies of them."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.system.packaging.environments import (
    REPOSITORY,
    Environment,
    install,
    lend_libraries,
    make_environment,
    run_here,
)

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
