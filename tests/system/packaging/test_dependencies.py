"""What the sources import is what the distribution asks for."""

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from tests.architecture.import_graph import PACKAGES, REPOSITORY, imports_under, sources

INDIRECT = {
    "anyio": "httpx",
    "pydantic_core": "pydantic",
}
"""Libraries that we use as parts of another one's interface, and which one declares them."""

OPTIONAL = {
    "pynvml": "nvidia-ml-py",
    "dns": "dnspython",
    "yaml": "pyyaml",
    "mcp": "mcp",
    **{name: name for name in ("alembic", "jinja2", "markupsafe", "sqlalchemy")},
}
"""Libraries of the extras: the sources go on without, or say which extra a command needs."""

NOT_IMPORTED = {"py-spy", "uvicorn", "sniffio"}
"""Programs that are started and not imported, or imported at the very end; and what another library looks for."""


def declared() -> set[str]:
    """Return the distributions that an install without extras brings."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {normal(re.split(r"[<>=!~; \[]", requirement)[0]) for requirement in project["dependencies"]}


def normal(distribution: str) -> str:
    """Return the one spelling of a distribution's name."""
    return distribution.lower().replace("_", "-")


def imported(package: str) -> set[str]:
    """Return the top-level names outside of ours and the standard library that a package imports."""
    tops = {one.name.partition(".")[0] for one in imports_under(package)}
    siblings = {file.stem for file in sources("agent/probe")}
    return tops - set(sys.stdlib_module_names) - {*PACKAGES, "torch", *siblings}


def distributions_of(name: str) -> set[str]:
    """Return the distributions that provide the top-level package `name`."""
    return {normal(one) for one in _installed().get(name, [name])}


@cache
def _installed() -> Mapping[str, Sequence[str]]:
    return packages_distributions()


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_are_declared(package: str) -> None:
    """A library that happens to be there in a developer's environment is missing in a user's."""
    names = {INDIRECT.get(name, name) for name in imported(package) - OPTIONAL.keys()}
    assert {name for name in names if not distributions_of(name) & declared()} == set()


def test_optional_libraries_are_those_of_extras() -> None:
    """Each is in an extra that a user can ask for by name."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {extra: asked for extra, asked in project["optional-dependencies"].items() if extra != "dev"}
    offered = {normal(re.split(r"[<>=!~; \[]", one)[0]) for asked in extras.values() for one in asked}
    assert set(OPTIONAL.values()) <= offered


def test_declared_dependencies_are_used() -> None:
    """What nobody imports any more is not asked of users."""
    names = {name for package in PACKAGES for name in imported(package)}
    used = {distribution for name in names for distribution in distributions_of(name)}
    assert declared() - used - NOT_IMPORTED == set()
