"""Makes a release, and tries what it made: `make release`.

1. The tree is clean, and the change log has its version with a date.
2. The tests marked `release` pass: the zipapp on each Python, the image's steps, the lowest versions of libraries.
3. The source distribution, the wheel and `unhang.pyz` are built from what is committed, the bill of materials from the
   lists with hashes, and `SHA256SUMS` of all.
4. Each is tried in an empty environment, as its reader would install it (`tried.py`).

Nothing is published: what lies in dist/ then is what was tried.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from deploy.release.tried import Failed, run, try_all

REPOSITORY = Path(__file__).resolve().parents[2]
DIST = REPOSITORY / "dist"
_RECORDINGS = "tests/data/neighbours"
_SBOM_TOOL = "cyclonedx-bom==7.5.0"


def main() -> None:
    """Build, write the sums, try."""
    parser = argparse.ArgumentParser(prog="make release", description="Build a release, and try what was built.")
    parser.add_argument("--rehearse", action="store_true", help="with a tree and a change log that are not ready")
    chosen = parser.parse_args()
    try:
        version = run(sys.executable, "-c", "import shared; print(shared.VERSION)", folder=REPOSITORY).strip()
        if not chosen.rehearse:
            check_ready(version)
        print("running the tests that a release needs", flush=True)
        run(sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "release", "tests/system", folder=REPOSITORY)
        with tempfile.TemporaryDirectory(prefix="unhang-release-") as folder:
            files = build(Path(folder), version)
            write_sums(files)
            try_all(files, Path(folder), version)
    except Failed as error:
        sys.exit(f"no release: {error}")
    print(f"tried, and ready in {DIST.relative_to(REPOSITORY)}/: {', '.join(file.name for file in files)}, SHA256SUMS")


def check_ready(version: str) -> None:
    """Raise Failed where the tree has changes, or this version no date in the change log, or no recording."""
    if changed := run("git", "status", "--porcelain", folder=REPOSITORY):
        raise Failed(f"the tree has changes:\n{changed}commit them, or rehearse: make release REHEARSE=1")
    dated = re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", _text("CHANGELOG.md"), re.MULTILINE)
    if dated is None:
        raise Failed(f"CHANGELOG.md has no line `## [{version}] - YYYY-MM-DD`")
    if not (REPOSITORY / _RECORDINGS / version).is_dir():
        raise Failed(f"later releases need {_RECORDINGS}/{version}: python -m tests.system.versions.record --help")


def build(folder: Path, version: str) -> list[Path]:
    """Build all files of a release from a copy of what is committed; return where they lie in dist/. Raises Failed."""
    DIST.mkdir(exist_ok=True)
    source = folder / "source"
    source.mkdir()
    archive = subprocess.run(("git", "archive", "HEAD"), cwd=REPOSITORY, capture_output=True, check=True).stdout
    subprocess.run(("tar", "-x"), cwd=source, input=archive, check=True)
    os.environ["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct", folder=REPOSITORY).strip()
    print("building the wheel and its source", flush=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(DIST), str(source), folder=source)
    print("building unhang.pyz", flush=True)
    wheels = REPOSITORY / "build" / "zipapp-wheels"
    zipapp = DIST / "unhang.pyz"
    run(sys.executable, "-m", "deploy.zipapp.build", str(zipapp), "--wheels", str(wheels), folder=source)
    print("writing the bill of materials", flush=True)
    bill = DIST / f"unhang-{version}.cdx.json"
    venv.create(folder / "bill", with_pip=True)
    tools = folder / "bill" / "bin"
    run(str(tools / "pip"), "install", "--quiet", "--disable-pip-version-check", _SBOM_TOOL, folder=source)
    asked = ("--pyproject", "pyproject.toml", "--of", "JSON", "--output-reproducible", "-o", str(bill))
    run(str(tools / "cyclonedx-py"), "requirements", "deploy/locked/services.txt", *asked, folder=source)
    return [DIST / f"unhang-{version}.tar.gz", DIST / f"unhang-{version}-py3-none-any.whl", zipapp, bill]


def write_sums(files: list[Path]) -> None:
    """Write what `sha256sum --check` reads."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="ascii")


def _text(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
