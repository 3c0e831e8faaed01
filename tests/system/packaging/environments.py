"""Virtual environments for the tests: empty ones that borrow the libraries of the one that runs the tests."""

import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterable, Mapping
from importlib.metadata import distribution
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[3]
RUN_SECONDS = 270.0


class Environment(NamedTuple):
    """A virtual environment of its own. Its site-packages hold only what a test puts there."""

    folder: Path

    @property
    def site_packages(self) -> Path:
        """Where an install lands."""
        paths = {"base": str(self.folder), "platbase": str(self.folder)}
        return Path(sysconfig.get_path("purelib", "venv", vars=paths))

    def run(self, program: str, *arguments: str, cwd: Path) -> str:
        """Run a program of this environment and return what it printed; it must succeed."""
        command = (str(self.folder / "bin" / program), *arguments)
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=RUN_SECONDS, env={"PATH": "/usr/bin:/bin"}
        )
        assert done.returncode == 0, f"{command} gave {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def tops(self) -> set[str]:
        """Return the names that lie at the top of site-packages, those of every virtual environment left out."""
        return {path.name for path in self.site_packages.iterdir()} - {"__pycache__"}


def make_environment(folder: Path) -> Environment:
    """Make an environment without pip in `folder`."""
    venv.create(folder, with_pip=False, symlinks=True)
    environment = Environment(folder)
    assert environment.tops() == set()
    return environment


def install(environment: Environment, wheel: Path) -> None:
    """Install a wheel without its dependencies, and without asking any index."""
    pip = (sys.executable, "-m", "pip", "--python", str(environment.folder / "bin" / "python"))
    run_here(*pip, "install", "--no-deps", "--no-index", "--disable-pip-version-check", "--quiet", str(wheel))


def lend_libraries(environment: Environment) -> None:
    """Let the libraries of this interpreter be found, after those of the environment itself.

    A .pth file only adds its lines to the path: this interpreter's own .pth files, which may name a checkout,
    are not read.
    """
    own = sysconfig.get_path("purelib")
    (environment.site_packages / "lent.pth").write_text(f"{own}\n", encoding="utf-8")


def lend(environment: Environment, names: Iterable[str]) -> None:
    """Let these distributions of this interpreter be found, and no others."""
    own = Path(sysconfig.get_path("purelib"))
    for name in names:
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (environment.site_packages / top).symlink_to(own / top)


def needed(*extras: str, on: Mapping[str, str] = MappingProxyType({})) -> set[str]:
    """Return the names of all that the wheel needs with these extras, there or where markers say `on`."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    wanted = [
        Requirement(text) for text in (*project["dependencies"], *(one for each in extras for one in optional[each]))
    ]
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        one = wanted.pop()
        key = canonicalize_name(one.name), frozenset(one.extras)
        if key in seen:
            continue
        seen.add(key)
        if one.name == project["name"]:
            wanted += (Requirement(text) for each in one.extras for text in optional[each])
            continue
        chosen = [{**on, "extra": extra} for extra in ("", *sorted(one.extras))]
        for need in map(Requirement, distribution(one.name).requires or ()):
            if need.marker is None or any(need.marker.evaluate(each) for each in chosen):
                wanted.append(need)
    return {name for name, _ in seen} - {project["name"]}


def build_zipapp(folder: Path, *options: str) -> Path:
    """Build the archive in a folder."""
    run_here(sys.executable, "-m", "deploy.zipapp.build", str(folder / "unhang.pyz"), *options)
    return folder / "unhang.pyz"


def run_here(*command: str, cwd: Path = REPOSITORY) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 0, f"{command} gave {done.returncode}:\n{done.stdout}{done.stderr}"
