"""The inventory: flags and a file, which is read again when it changes."""

from pathlib import Path

import pytest

from collector.agents.static_list import StaticInventory
from shared.errors import InvalidHostlist, InvalidSettings
from shared.missing import Reason


def hosts(inventory: StaticInventory) -> list[str]:
    """The names in the inventory's order."""
    return [address.host for address in inventory.addresses()]


def test_flags_come_before_the_file_and_repetitions_are_folded(tmp_path: Path) -> None:
    """Lists, then the file's lines, each agent once; comments and empty lines do not count."""
    file = tmp_path / "agents"
    file.write_text("# the cluster\nnode[1-2]  # first rack\n\ngpu1:9000\n")
    assert hosts(StaticInventory(["node2,node3"], file=file)) == ["node2", "node3", "node1", "gpu1"]


def test_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """A node that is added to the file is asked from the next question on."""
    file = tmp_path / "agents"
    file.write_text("node1\n")
    inventory = StaticInventory(file=file)
    assert hosts(inventory) == ["node1"]
    file.write_text("node1\nnode2\n")
    assert hosts(inventory) == ["node1", "node2"]


@pytest.mark.parametrize("broken", [b"node[", b"\xff\xfe\x00", None], ids=["invalid", "binary", "removed"])
def test_last_good_content_stands_while_the_file_is_broken(tmp_path: Path, broken: bytes | None) -> None:
    """A mistake in the file does not take the agents away; the trouble is told until it is mended."""
    file = tmp_path / "agents"
    file.write_text("node1\n")
    inventory = StaticInventory(file=file)
    file.unlink() if broken is None else file.write_bytes(broken)
    assert hosts(inventory) == ["node1"]
    assert inventory.trouble is not None
    assert inventory.trouble.reason is Reason.UNREADABLE
    file.write_text("node1 node2")
    assert hosts(inventory) == ["node1", "node2"]
    assert inventory.trouble is None


def test_file_that_cannot_be_used_at_the_start_is_refused(tmp_path: Path) -> None:
    """A service does not start with a list that it cannot read, and says which line is wrong."""
    with pytest.raises(InvalidSettings, match="No such file"):
        StaticInventory(file=tmp_path / "nix")
    (tmp_path / "agents").write_text("node1\nnode[3-1]\n")
    with pytest.raises(InvalidHostlist, match="line 2"):
        StaticInventory(file=tmp_path / "agents")


def test_file_that_names_too_many_is_refused(tmp_path: Path) -> None:
    """Many lines that each mean many agents are refused as one long line is."""
    (tmp_path / "agents").write_text("node[1-100000]\n" * 1000)
    with pytest.raises(InvalidHostlist, match="more than"):
        StaticInventory(file=tmp_path / "agents")
