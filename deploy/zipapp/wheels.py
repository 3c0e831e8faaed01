"""The wheels inside `unhang.pyz`: `wheels.txt` names each with its SHA-256; those that are not here yet are fetched.

pip fetches them, from wherever it is configured to, and installs nothing. What was fetched stays in a folder, so that
the next build needs no network. A wheel whose hash is another one is never used.
"""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.zipapp.targets import Target

REPOSITORY = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("wheels.txt")
CONSTRAINTS = REPOSITORY / "constraints.txt"
PYPROJECT = REPOSITORY / "pyproject.toml"

_ALWAYS_INSIDE = ("jinja2", "nvidia-ml-py")
"""What is optional where pip installs, and always inside: whoever calls the archive can add nothing to it."""

_AT_ONCE = 4
"""Runs of pip. Each takes a second of a core and then waits for the network."""

# click>=8.1,<9    pydantic==2.14.3
_NAME = re.compile(r"[\w.-]+(?=[<>=!~; \[]|$)")


class Unusable(Exception):
    """A wheel cannot be had, or the list does not fit the rest of the checkout. Says what to do."""


@dataclass(frozen=True)
class Wheel:
    """One line of `wheels.txt`: `SHA256  FILE  TARGETS`."""

    sha256: str
    file: str
    patterns: tuple[str, ...]
    """For which targets it is, as patterns of their tags: `*`, `*-x86_64`, `cp312-x86_64`."""

    @property
    def name(self) -> str:
        """The distribution, in its one spelling."""
        return normal(self.file.split("-")[0])

    @property
    def version(self) -> str:
        """The version of the distribution."""
        return self.file.split("-")[1]

    def fits(self, target: Target) -> bool:
        """Say whether this target takes this wheel."""
        return any(fnmatchcase(target.tag, pattern) for pattern in self.patterns)


def normal(name: str) -> str:
    """Return the one spelling of a distribution's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_list(path: Path = LIST) -> tuple[Wheel, ...]:
    """Read `wheels.txt`."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return tuple(Wheel(sha256, file, tuple(patterns)) for sha256, file, *patterns in lines)


def needed() -> tuple[str, ...]:
    """Return the distributions that the sources inside import; what those need comes on top."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    names = (_NAME.match(requirement) for requirement in project["dependencies"])
    return (*(normal(match[0]) for match in names if match), *_ALWAYS_INSIDE)


def pinned() -> dict[str, str]:
    """Return the versions that constraints.txt names."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {normal(name): version for name, version in pairs}


def check_list(wheels: Iterable[Wheel]) -> None:
    """Raise Unusable where the list is older than constraints.txt or pyproject.toml."""
    listed = {wheel.name: wheel.version for wheel in wheels}
    versions = pinned()
    others = [
        f"{name} {listed[name]}, not {versions.get(name)}" for name in listed if versions.get(name) != listed[name]
    ]
    lacking = [f"no {name}" for name in needed() if name not in listed]
    if others or lacking:
        raise Unusable(
            f"{LIST.name} has {', '.join(others + lacking)}: `make constraints` writes it again, or "
            "`.venv/bin/python -m deploy.zipapp.lock` it alone"
        )


def fetch(wheels: Sequence[Wheel], targets: Sequence[Target], folder: Path) -> None:
    """Have all wheels of these targets in `folder`. Raises Unusable."""
    folder.mkdir(parents=True, exist_ok=True)
    lacking: dict[Target, list[Wheel]] = {}
    for wheel in wheels:
        fitting = [target for target in targets if wheel.fits(target)]
        if fitting and not _is_here(wheel, folder):
            lacking.setdefault(fitting[0], []).append(wheel)
    if lacking:
        with TemporaryDirectory(dir=folder) as draft, ThreadPoolExecutor(_AT_ONCE) as pool:
            pip = _pip(Path(draft))
            jobs = [pool.submit(_download, pip, target, some, Path(draft)) for target, some in lacking.items()]
            for job in jobs:
                job.result()
            _keep(lacking, Path(draft), folder)


def _is_here(wheel: Wheel, folder: Path) -> bool:
    path = folder / wheel.file
    return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == wheel.sha256


def _pip(folder: Path) -> tuple[str, ...]:
    """Return how pip is called: the one of this Python, or one in an environment that goes away with `folder`."""
    python = sys.executable
    if find_spec("pip") is None:
        venv.create(folder / "pip", with_pip=True)
        python = str(folder / "pip" / "bin" / "python")
    return (python, "-m", "pip", "--disable-pip-version-check", "--no-input")


def _download(pip: Sequence[str], target: Target, wheels: Sequence[Wheel], folder: Path) -> None:
    """Fetch wheels that this target takes into `folder`. Raises Unusable."""
    asked = folder / f"{target.tag}.txt"
    asked.write_text("".join(f"{w.name}=={w.version} --hash=sha256:{w.sha256}\n" for w in wheels), encoding="utf-8")
    options = ("--quiet", "--no-deps", "--require-hashes", "--dest", str(folder), "--requirement", str(asked))
    command = (*pip, "download", *options, *target.pip_options())
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=os.environ | {"PYTHONPATH": ""})
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
        names = ", ".join(f"{wheel.name} {wheel.version}" for wheel in wheels)
        raise Unusable(
            f"for {target.python}-{target.machine} pip could not fetch all of {names}: {' '.join(said)}\n"
            "`make zipapp ZIPAPP_FOR='3.12-x86_64 3.13'` builds for fewer; see docs/without-a-service.md"
        )


def _keep(wheels: Mapping[Target, Sequence[Wheel]], draft: Path, folder: Path) -> None:
    """Put what was fetched where it stays. Raises Unusable for what is not as listed."""
    for wheel in (wheel for some in wheels.values() for wheel in some):
        if not _is_here(wheel, draft):
            raise Unusable(f"pip did not bring {wheel.file} as {LIST.name} has it")
        (draft / wheel.file).replace(folder / wheel.file)
