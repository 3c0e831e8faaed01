"""Whoever blocks readers is avoided: for how long, and whose processes with him."""

from pathlib import Path

import pytest

from agent.find.blockers import MOST_OF_ONE, Avoided, Blockers
from agent.proc.procfs import ProcFs, Stat
from tests.build.processes.proc_trees import add_process, make_tree


class Machine:
    """Processes of several users, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self._root = make_tree(folder / "proc")
        self._procfs = ProcFs(self._root)
        self.blockers = Blockers(self._procfs, clock=lambda: self.now)

    def start(self, pid: int, user: int) -> Stat:
        """Start a process."""
        add_process(self._root, pid, 1, {})
        (self._root / str(pid) / "status").write_text(f"Uid:\t{user}\t{user}\t{user}\t{user}\n")
        return self._procfs.stat(pid)

    def block(self, pid: int, user: int, *, holds: bool = True) -> Stat:
        """Start a process that blocks its reader."""
        stat = self.start(pid, user)
        self.blockers.add((stat.pid, stat.start_ticks), lambda: holds)
        return stat

    def end(self, pid: int) -> None:
        """End one."""
        (self._root / str(pid) / "stat").unlink()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_user_with_many_is_avoided_and_no_other(machine: Machine) -> None:
    """Below the bound only those that blocked."""
    eve, alice = machine.start(50, 7), machine.start(51, 8)
    for count in range(MOST_OF_ONE):
        assert not machine.blockers.is_avoided(eve)
        blocked = machine.block(60 + count, 7)
        assert machine.blockers.is_avoided(blocked)
    assert machine.blockers.is_avoided(eve)
    assert not machine.blockers.is_avoided(alice)
    assert machine.blockers.told() == (Avoided("7", (60, 61, 62, 63), True),)


def test_many_users_have_one_each(machine: Machine) -> None:
    """So that they use up no more together than a few do."""
    for pid in range(100, 132):
        machine.block(pid, pid)
    assert machine.blockers.is_avoided(machine.start(50, 110))
    assert not machine.blockers.is_avoided(machine.start(51, 8))


def test_starting_anew_gains_nothing_for_ten_minutes(machine: Machine) -> None:
    """Then who has ended is forgotten, and who holds no thread any more; not who still does."""
    eve = machine.start(50, 7)
    for pid in range(60, 60 + MOST_OF_ONE):
        machine.block(pid, 7)
        machine.end(pid)
    machine.block(70, 8)
    machine.block(71, 9, holds=False)
    machine.now = 599
    machine.blockers.prune()
    assert machine.blockers.is_avoided(eve)
    assert machine.blockers.told()[0] == Avoided("7", (), True)
    machine.now = 600
    machine.blockers.prune()
    assert not machine.blockers.is_avoided(eve)
    assert machine.blockers.told() == (Avoided("8", (70,), False),)
