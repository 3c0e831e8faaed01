"""What services install: complete, in the tested versions, with hashes, for every Python and machine."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy.zipapp.targets import ALL, Target
from deploy.zipapp.wheels import normal, pinned, read_list
from tests.system.packaging.environments import REPOSITORY, needed

LOCKED = REPOSITORY / "deploy" / "locked"
EXTRAS = {"node.txt": ("gpu",), "services.txt": ("collector", "discovery", "gpu", "postgres")}
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


@pytest.mark.parametrize("name", EXTRAS)
@pytest.mark.parametrize("target", ALL, ids=lambda target: target.tag)
def test_list_is_complete(target: Target, name: str) -> None:
    """All that the wheel and its extras need, for pip takes nothing else where hashes are asked for."""
    found = locked(LOCKED / name)
    here = {
        name
        for name, (requirement, _) in found.items()
        if requirement.marker is None or requirement.marker.evaluate({**target.marker_environment(), "extra": ""})
    }
    assert needed(*EXTRAS[name], on=target.marker_environment()) - here == set()


@pytest.mark.parametrize("name", [*EXTRAS, "build.txt"])
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
        assert len(commands) >= 4
        for command in commands:
            assert "--require-hashes" in command or "--no-deps" in command
            assert "--no-index" in command or "--no-build-isolation" in command or "-r deploy/locked/" in command
