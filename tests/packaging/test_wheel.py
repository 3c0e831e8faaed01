"""The wheel: all of ours is in it, one name lands at the top, and nobody's package is shadowed."""

import zipfile
from pathlib import Path, PurePosixPath

from shared import VERSION
from tests.packaging.environments import REPOSITORY, Environment

PACKAGES = ("agent", "cli", "collector", "shared")


def files_of_the_tree() -> set[str]:
    """Return what the packages hold, as names in the wheel."""
    paths = (path for package in PACKAGES for path in (REPOSITORY / package).rglob("*"))
    kept = (path for path in paths if path.is_file() and "__pycache__" not in path.parts)
    return {str(PurePosixPath("unhang/_app", path.relative_to(REPOSITORY))) for path in kept}


def test_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Data files too: the probe's sitecustomize, pages, py.typed. And the launcher, and nothing else."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == files_of_the_tree() | {"unhang/__init__.py"}


def test_one_name_lands_at_the_top(installed: Environment) -> None:
    """Beside a decoy `shared` and the libraries it borrows, the environment gained `unhang` alone."""
    gained = installed.tops() - {"shared", "lent.pth"}
    assert gained == {"unhang", f"unhang-{VERSION}.dist-info"}


def test_command_runs_beside_a_package_called_shared(installed: Environment, tmp_path: Path) -> None:
    """Our own process finds our `shared`, although someone else's is installed."""
    assert VERSION in installed.run("unhang", "version", cwd=tmp_path)
    assert "diagnose" in installed.run("unhang", "--help", cwd=tmp_path)


def test_other_programs_keep_their_shared(installed: Environment, tmp_path: Path) -> None:
    """Importing `unhang` changes nothing for whoever does it."""
    program = "import unhang, shared, sys; print(shared.OWNER, any('_app' in path for path in sys.path))"
    assert installed.run("python", "-c", program, cwd=tmp_path) == "someone else False\n"


def test_command_does_not_take_modules_from_where_it_is_called(installed: Environment, tmp_path: Path) -> None:
    """A training repository with its own `shared`, `agent` or `cli` folder is where people call it."""
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('wrong package')", encoding="utf-8")
    assert VERSION in installed.run("unhang", "version", cwd=tmp_path)


def test_probe_path_exposes_the_probe_alone(installed: Environment, tmp_path: Path) -> None:
    """Jobs put that folder on their path, so none of our packages may be importable from it."""
    folder = Path(installed.run("unhang", "probe-path", cwd=tmp_path).strip())
    assert (folder / "sitecustomize.py").is_file()
    assert not any((folder / package).exists() for package in PACKAGES)
