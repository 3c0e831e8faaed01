"""The wheel: all of ours is in it, one name lands at the top, and nobody's package is shadowed."""

import socket
import sqlite3
import subprocess
import zipfile
from contextlib import closing
from pathlib import Path, PurePosixPath

import httpx
import pytest

from shared import VERSION
from tests.build.processes.waiting import until_it_answers
from tests.system.packaging.environments import REPOSITORY, RUN_SECONDS, Environment

PACKAGES = ("agent", "cli", "collector", "shared")


def files_of_the_tree() -> set[str]:
    """Return what the packages hold, as names in the wheel."""
    paths = (path for package in PACKAGES for path in (REPOSITORY / package).rglob("*"))
    kept = (path for path in paths if path.is_file() and "__pycache__" not in path.parts)
    return {str(PurePosixPath("unhang/_app", path.relative_to(REPOSITORY))) for path in kept}


def test_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Data files too: the probe's sitecustomize, pages, py.typed. And the launcher, and nothing else."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == files_of_the_tree() | {"unhang/__init__.py", "unhang/py.typed"}


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


def test_store_is_made_by_what_the_wheel_carries(installed: Environment, tmp_path: Path) -> None:
    """Without a checkout beside it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        command = (installed.folder / "bin" / "unhang", "collector", "--store", "store.sqlite3", "--listen", listen)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert "cannot listen" in done.stderr
    with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as store:
        assert store.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)


@pytest.mark.parametrize("kind", ["agent", "collector"])
def test_documentation_is_served_by_what_the_wheel_carries(installed: Environment, tmp_path: Path, kind: str) -> None:
    """The page names nothing that lies elsewhere."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
    command = (installed.folder / "bin" / "unhang", kind, "--listen", listen)
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as service:
        try:
            until_it_answers(f"http://{listen}/docs", service)
            page = httpx.get(f"http://{listen}/docs", verify=False, timeout=RUN_SECONDS)
        finally:
            service.terminate()
    assert f"<h1>unhang {kind} {VERSION}</h1>" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text
