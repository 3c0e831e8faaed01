"""What services install: complete, in the tested versions, with hashes, for every Python and machine."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy.zipapp.targets import ALL, Target
from deploy.zipapp.wheels import normal, pinned, read_list
from tests.system.packaging.environments import REPOSITORY

LOCKED = REPOSITORY / "deploy" / "locked"
EXTRAS = ("discovery", "gpu", "postgres")
DOCKERFILE = REPOSITORY / "deploy" / "container" / "Dockerfile"
GUIDE = REPOSITORY / "deploy" / "systemd" / "README.md"


def locked(path: Path) -> dict[str, tuple[Requirement, frozenset[str]]]:
    """Return what a list holds: the requirement and its hashes, by name."""
    found = {}
    for entry in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        words = entry.partition(" --hash=")
        requirement = Requirement(words[0].strip())
        found[normal(requirement.name)] = requirement, frozenset(re.findall(r"sha256:([0-9a-f]{64})", entry))
    return found


def needed_by(target: Target, *, wanted: list[Requirement]) -> set[str]:
    """Return the names of all that these requirements need there, themselves included."""
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        one = wanted.pop()
        key = normal(one.name), frozenset(one.extras)
        if key in seen:
            continue
        seen.add(key)
        chosen = [{**target.marker_environment(), "extra": extra} for extra in ("", *sorted(one.extras))]
        for need in map(Requirement, distribution(one.name).requires or ()):
            if need.marker is None or any(need.marker.evaluate(each) for each in chosen):
                wanted.append(need)
    return {name for name, _ in seen}


@pytest.mark.parametrize("target", ALL, ids=lambda target: target.tag)
def test_list_is_complete(target: Target) -> None:
    """All that the wheel and the services' extras need, for pip takes nothing else where hashes are asked for."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(each for extra in EXTRAS for each in project["optional-dependencies"][extra])]
    found = locked(LOCKED / "services.txt")
    here = {
        name
        for name, (requirement, _) in found.items()
        if requirement.marker is None or requirement.marker.evaluate({**target.marker_environment(), "extra": ""})
    }
    assert needed_by(target, wanted=list(map(Requirement, asked))) - here == set()


@pytest.mark.parametrize("name", ["services.txt", "build.txt"])
def test_each_version_is_the_tested_one_with_hashes(name: str) -> None:
    """`make constraints` writes these lists from constraints.txt."""
    versions = pinned()
    for each, (requirement, hashes) in locked(LOCKED / name).items():
        assert hashes, each
        assert str(requirement.specifier) == f"=={versions.get(each, requirement.specifier)}".replace("====", "==")


def test_hashes_are_those_of_the_zipapp() -> None:
    """Which were written by another program, from what pip was given: of the same files."""
    found = locked(LOCKED / "services.txt")
    wheels = [wheel for wheel in read_list() if wheel.name in found]
    assert len(wheels) >= 40
    assert [wheel.file for wheel in wheels if wheel.sha256 not in found[wheel.name][1]] == []


def test_services_are_installed_by_these_lists() -> None:
    """The image and the guide: nothing that pip fetches for them is without a hash."""
    service = DOCKERFILE.read_text(encoding="utf-8").partition("# A job to try it on")[0]
    for text in (service, GUIDE.read_text(encoding="utf-8")):
        commands = re.findall(r"pip (?:install|wheel) [^\n]+", text)
        assert len(commands) == 4
        for command in commands:
            assert "--require-hashes" in command or "--no-deps" in command
            assert "--no-index" in command or "--no-build-isolation" in command or "-r deploy/locked/" in command
