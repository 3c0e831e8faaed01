"""`--hosts` as launchers write hosts: files that are, and texts and files that are not."""

from pathlib import Path

import pytest

from cli.sources.hostfile import read_hosts
from shared.errors import InvalidHostlist


@pytest.mark.parametrize(
    ("written", "hosts"),
    [
        ("worker-1 slots=4\nworker-2 slots=4\n", "worker-1,worker-2"),
        ("# of MPI\n\nnode[01-04] slots=8 max_slots=16   # fast ones\n", "node[01-04]"),
        ("n1:8\nn2:8 binding=numa\r\n", "n1,n2"),
        ("n1\nn1\nn2\n", "n1,n1,n2"),
        ("", ""),
    ],
)
def test_hostfiles(written: str, hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a path, and by a name in the current directory."""
    monkeypatch.chdir(tmp_path)
    Path("hosts").write_text(written)
    assert (read_hosts("./hosts"), read_hosts("hosts")) == (hosts, hosts)


@pytest.mark.parametrize("written", ["Traceback (most recent call last):\n", "n1 n2\n", "a: b\n", "\0\n"])
def test_a_file_that_is_no_hostfile(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host may have its name; a path is none."""
    monkeypatch.chdir(tmp_path)
    Path("node01").write_text(written)
    assert read_hosts("node01") == "node01"
    with pytest.raises(InvalidHostlist):
        read_hosts("./node01")


@pytest.mark.parametrize("text", ["node[01-16],gpu7", "absent", "a b"])
def test_what_names_no_file(text: str) -> None:
    """It is a list of hosts."""
    assert read_hosts(text) == text
    with pytest.raises(InvalidHostlist):
        read_hosts(f"./{text}")
