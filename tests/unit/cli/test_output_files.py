"""What `-o` names is written and never harmed: devices stay devices, links stay links."""

import os
import stat
import threading
from pathlib import Path

import pytest

from cli.sources.bundle import write_whole
from shared.errors import UnhangError

TEXT = b"verdict\n"


def write(path: Path) -> None:
    write_whole(path, lambda to: to.write(TEXT))


def test_a_new_file_is_there_whole_and_for_its_owner_alone(tmp_path: Path) -> None:
    write(tmp_path / "answer")
    assert (tmp_path / "answer").read_bytes() == TEXT
    assert stat.S_IMODE((tmp_path / "answer").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["answer"]


def test_a_fifo_is_written_through(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    write(fifo)
    reader.join(timeout=10)
    assert read == [TEXT]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


@pytest.mark.root
def test_a_device_stays_a_device(tmp_path: Path) -> None:
    device = tmp_path / "null"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    write(device)
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == TEXT


def test_no_directory_is_made_on_the_way(tmp_path: Path) -> None:
    with pytest.raises(UnhangError, match="cannot be written"):
        write(tmp_path / "missing" / "answer")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnhangError, match="cannot be written"):
        write(tmp_path)
