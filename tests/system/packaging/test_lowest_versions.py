"""The gate holds with the oldest libraries that an install may bring, too."""

import fcntl
import json
import shutil
import sys
import tomllib
from collections.abc import Sequence

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.system.packaging.environments import REPOSITORY, Environment, lend_libraries, make_environment, run_here

OF_REQUESTS = {"fastapi", "starlette", "uvicorn", "h11", "httpx", "httpcore", "pydantic", "pydantic-settings"}
"""Libraries that have a say in how requests are read."""

BROUGHT = {"pydantic-core": "2.23.2"}
"""What the lowest versions ask for by one version alone: of all else, those do that this interpreter has."""

ASK = """
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""

TESTS = (
    "tests/system/attacks/test_requests.py",
    "tests/system/attacks/test_web_pages.py",
    "tests/unit/shared/server/api/test_page.py",
    "tests/unit/shared/server/test_gate.py",
    "tests/unit/shared/server/api/test_methods.py",
    "tests/unit/shared/server/test_problem_handlers.py",
)


def lowest() -> dict[str, Version]:
    """Return the lower ends of what the distribution asks for of them."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    all_of_them = dict(_lowest_of(Requirement(text)) for text in project["dependencies"])
    return {name: all_of_them[name] for name in OF_REQUESTS}


def _lowest_of(requirement: Requirement) -> tuple[str, Version]:
    (low,) = (one.version for one in requirement.specifier if one.operator == ">=")
    return requirement.name, Version(low)


@pytest.fixture(scope="module")
def oldest() -> Environment:
    """An environment with the lowest versions, which borrows all else; made once for a checkout, in build/lowest."""
    pins = [f"{name}=={version}" for name, version in lowest().items()]
    pins += [f"{name}=={version}" for name, version in BROUGHT.items()]
    folder = REPOSITORY / "build" / "lowest"
    folder.mkdir(parents=True, exist_ok=True)
    made, wanted = folder / "made", f"{sys.executable} {' '.join(sorted(pins))}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.read_text(encoding="utf-8") != wanted:
            made.unlink(missing_ok=True)
            shutil.rmtree(folder / "environment", ignore_errors=True)
            _install(make_environment(folder / "environment"), pins)
            made.write_text(wanted, encoding="utf-8")
    return Environment(folder / "environment")


def _install(environment: Environment, pins: Sequence[str]) -> None:
    pip = (sys.executable, "-m", "pip", "--python", str(environment.folder / "bin" / "python"))
    options = ("--quiet", "--disable-pip-version-check", "--no-compile", "--only-binary=:all:", "--no-deps")
    run_here(*pip, "install", *options, *pins)
    lend_libraries(environment)


@pytest.mark.release
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="pydantic's lowest version has no wheel for this Python")
def test_requests_are_read_as_well_with_the_lowest_versions(oldest: Environment) -> None:
    """They are what is found there, and the tests of strangers and web pages pass with them."""
    found = json.loads(oldest.run("python", "-c", ASK, *lowest(), cwd=REPOSITORY))
    assert {name: Version(version) for name, version in found.items()} == lowest()
    said = oldest.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, cwd=REPOSITORY)
    assert " passed" in said
    assert " skipped" not in said
