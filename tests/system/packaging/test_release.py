"""`make release` makes none of a tree that is not ready, and its sums are what sha256sum reads."""

import subprocess
from pathlib import Path

import pytest

from deploy.release import build
from deploy.release.tried import Failed, run


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a change log, committed."""
    monkeypatch.setattr(build, "REPOSITORY", tmp_path)
    monkeypatch.setattr(build, "DIST", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("## [0.1.0] - 2026-12-01\n## [0.3.0] - 2026-12-02\n", encoding="utf-8")
    (recorded := tmp_path / "tests" / "data" / "neighbours" / "0.1.0").mkdir(parents=True)
    (recorded / "node01.json").touch()
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "-m", "it")):
        subprocess.run(("git", *command), cwd=tmp_path, check=True)
    return tmp_path


def test_tree_that_is_ready(tree: Path) -> None:
    """Clean, and its version has a date."""
    build.check_ready("0.1.0")


def test_what_is_not_ready_is_told(tree: Path) -> None:
    """A version without a date, and what was not committed, by name."""
    with pytest.raises(Failed, match=r"## \[0.2.0\] - YYYY-MM-DD"):
        build.check_ready("0.2.0")
    with pytest.raises(Failed, match=r"neighbours/0\.3\.0"):
        build.check_ready("0.3.0")
    (tree / "forgotten.py").touch()
    with pytest.raises(Failed, match=r"forgotten\.py"):
        build.check_ready("0.1.0")


def test_sums_are_those_of_the_files(tree: Path) -> None:
    """As a reader checks them; a file that was changed is found."""
    (file := tree / "unhang.pyz").write_bytes(b"it")
    build.write_sums([file])
    run("sha256sum", "--check", "--strict", "SHA256SUMS", folder=tree)
    file.write_bytes(b"it, changed")
    with pytest.raises(Failed, match="FAILED"):
        run("sha256sum", "--check", "--strict", "SHA256SUMS", folder=tree)
