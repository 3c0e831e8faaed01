"""Files that are hostile, broken or too much cost themselves alone."""

import gzip
import io
import os
import pickle
import tarfile
from pathlib import Path

import pytest

from collector.files.read_directory import read_directory
from collector.files.tree.walk import Bounds
from shared.missing import Reason
from tests.build.jobs.folders import dump_file, tar_gz, write_files


def _gadget() -> bytes:
    class Gadget:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("touch /tmp/owned-by-a-pickle",)

    return pickle.dumps({"entries": [Gadget()]}, 2)


HOSTILE: tuple[tuple[str, bytes, Reason], ...] = (
    ("dump_9", _gadget(), Reason.UNREADABLE),
    ("dump_9", dump_file(1)[:-20], Reason.UNREADABLE),
    ("dump_9", b"\x80\x02X\xff\xff\xff\x7f", Reason.UNREADABLE),
    ("dump_9", b"\x80\x02" + b"]" * 3_000_000 + b".", Reason.UNREADABLE),
    ("dump_9", b'{"entries": ' + b"[" * 200_000, Reason.UNREADABLE),
    ("look.json", b'{"schema_version": 1, "agent_version": "0", "ranks": ' + b"[" * 200_000, Reason.UNREADABLE),
    ("look.json", b'{"schema_version": 1, "agent_version": "0", "ranks": [{"rank', Reason.UNREADABLE),
    ("look.json", b'{"schema_version": 999, "agent_version": "9", "host": "n"}', Reason.UNREADABLE),
    ("rank_9.json", b'[{"thread_id": 1, "frames": 7}]', Reason.UNREADABLE),
    ("other.json", b'{"hello": "world"}', Reason.UNREADABLE),
    ("random", b"\x00\x01\x02" * 100, Reason.UNREADABLE),
    ("cut.gz", gzip.compress(os.urandom(10_000))[:-500], Reason.UNREADABLE),
    ("bomb.gz", gzip.compress(b"\x00" * 5_000_000), Reason.REFUSED),
    ("nested.tar.gz", b"", Reason.REFUSED),
    ("cut.tar", b"", Reason.UNREADABLE),
    ("cut.zip", b"PK\x03\x04 and then nothing", Reason.UNREADABLE),
)


@pytest.mark.parametrize(("name", "content", "reason"), HOSTILE, ids=[f"{i}-{row[0]}" for i, row in enumerate(HOSTILE)])
def test_hostile_file_costs_itself_only(tmp_path: Path, name: str, content: bytes, reason: Reason) -> None:
    """One broken or hostile file is one `Missing`, nothing of it is run, and the others are used."""
    if name == "nested.tar.gz":
        content = tar_gz({"inner.tar.gz": tar_gz({"dump_0": dump_file(0)})})
    if name == "cut.tar":
        content = gzip.decompress(tar_gz({"dump_7": dump_file(0)}))[:1500]
    write_files(tmp_path, {"dump_1": dump_file(1), name: content})
    snapshots, (missing,) = read_directory(tmp_path, bounds=Bounds(most_bytes=4_000_000))
    assert missing.source.startswith(name.removesuffix(".gz"))
    assert missing.reason is reason
    assert [rank.identity.rank for rank in snapshots[0].ranks] == [1]
    assert not Path("/tmp/owned-by-a-pickle").exists()


def test_archive_whose_header_claims_a_gigabyte(tmp_path: Path) -> None:
    """A claimed size is not believed: nothing is allocated for it."""
    info = tarfile.TarInfo("dump_0")
    info.size = 8**11 - 1
    (tmp_path / "claims").write_bytes(info.tobuf() + dump_file(0))
    pax = tarfile.TarInfo("pax")
    pax.type, pax.size = tarfile.XHDTYPE, 2**31
    (tmp_path / "header").write_bytes(pax.tobuf(tarfile.USTAR_FORMAT) + b"x" * 2000)
    (tmp_path / "dump_1").write_bytes(dump_file(1))
    snapshots, missing = read_directory(tmp_path)
    assert [rank.identity.rank for rank in snapshots[0].ranks] == [1]
    assert {each.source.partition("!")[0] for each in missing} == {"claims", "header"}


def test_members_of_an_archive_cannot_be_links(tmp_path: Path) -> None:
    """A link or a device in an archive is told and passed over."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        link = tarfile.TarInfo("dump_0")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    (tmp_path / "links.tar").write_bytes(packed.getvalue())
    _, (missing,) = read_directory(tmp_path)
    assert (missing.source, missing.reason) == ("links.tar!dump_0", Reason.REFUSED)


def test_links_fifos_and_sockets_are_not_opened(tmp_path: Path) -> None:
    """Links out of the tree, links in circles and FIFOs are told; a link within the tree is simply another name."""
    inside = tmp_path / "dir"
    inside.mkdir()
    (inside / "dump_0").write_bytes(dump_file(0))
    (inside / "again").symlink_to("dump_0")
    (inside / "out").symlink_to("/etc/passwd")
    (inside / "circle").symlink_to("circle")
    (inside / "up").symlink_to(tmp_path)
    os.mkfifo(inside / "fifo")
    snapshots, missing = read_directory(inside)
    assert [rank.identity.rank for rank in snapshots[0].ranks] == [0]
    assert {each.source for each in missing} == {"out", "circle", "up", "fifo"}
    assert {each.reason for each in missing} == {Reason.REFUSED}


def test_bounds_on_number_and_total(tmp_path: Path) -> None:
    """Too many or too large files: what fits is used, the rest is told."""
    write_files(tmp_path, {f"dump_{rank}": dump_file(rank) for rank in range(4)})
    snapshots, (missing,) = read_directory(tmp_path, bounds=Bounds(most_files=2))
    assert len(snapshots[0].ranks) == 2
    assert missing.source == "dump_2"
    snapshots, _ = read_directory(tmp_path, bounds=Bounds(most_bytes_in_all=5000))
    assert len(snapshots[0].ranks) == 2
