"""A store that others may write is refused at the start, and nothing is made or changed there."""

import os
from pathlib import Path

import pytest

from collector.keep.store import Store
from shared.errors import InvalidSettings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
OTHER = 4242


def refusal(file: Path) -> str:
    """Return why the store cannot be opened."""
    with pytest.raises(InvalidSettings) as caught:
        Store(file)
    assert "0700" in caught.value.advice
    return str(caught.value)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of our own with a store in it, of which a `-wal` is left as after a SIGKILL."""
    directory = tmp_path / "own"
    directory.mkdir(mode=0o700)
    Store(directory / "s.sqlite3").close()
    (directory / "s.sqlite3-wal").touch(mode=0o600)
    return directory


@pytest.mark.parametrize("name", ["s.sqlite3", "s.sqlite3-wal", "s.sqlite3-shm", "s.sqlite3-journal"])
@pytest.mark.parametrize("how", ["open to all", "open to a group", "of another user", "a link", "a directory"])
def test_files_that_others_may_write(name: str, how: str, place: Path, tmp_path: Path) -> None:
    """The store itself, and each file that SQLite would read beside it."""
    file = place / name
    file.touch(mode=0o600)
    match how:
        case "open to all":
            file.chmod(0o602)
        case "open to a group":
            os.chown(file, 0, OTHER)
            file.chmod(0o660)
        case "of another user":
            os.chown(file, OTHER, 0)
        case "a link":
            file.unlink()
            (tmp_path / "other").touch()
            os.chown(tmp_path / "other", OTHER, OTHER)
            file.symlink_to(tmp_path / "other")
        case "a directory":
            file.unlink()
            file.mkdir()
    told = refusal(place / "s.sqlite3")
    assert "other" in told or "plain" in told or "belongs" in told


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_directories_that_others_may_write(mode: int, place: Path) -> None:
    """Sticky or not: where there is no `-wal`, anybody may put one."""
    place.chmod(mode)
    assert f"mode {mode:04o}" in refusal(place / "s.sqlite3")
    before = sorted(place.iterdir())
    refusal(place / "new.sqlite3")
    assert sorted(place.iterdir()) == before


def test_directories_of_others(place: Path, tmp_path: Path) -> None:
    """Who owns the directory, or one above that all may write, puts another store in the place of ours."""
    os.chown(place, OTHER, 0)
    assert f"belongs to uid {OTHER}" in refusal(place / "s.sqlite3")
    os.chown(place, 0, 0)
    tmp_path.chmod(0o777)
    assert "mode 0777" in refusal(place / "s.sqlite3")


def test_a_link_of_somebody_in_a_directory_of_all(place: Path, tmp_path: Path) -> None:
    """It leads to where he likes, and elsewhere tomorrow; our own link may stay."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    link = shared / "store"
    link.symlink_to(place)
    Store(link / "s.sqlite3").close()
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    assert f"belongs to uid {OTHER}" in refusal(link / "s.sqlite3")


def test_our_own_group_may_write(place: Path) -> None:
    """Kubernetes makes volumes so: mode 2775, with the group of the container."""
    os.chown(place, 0, os.getegid())
    place.chmod(0o2775)
    (place / "s.sqlite3").chmod(0o660)
    Store(place / "s.sqlite3").close()
