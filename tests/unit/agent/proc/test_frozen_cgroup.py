"""Which file thaws a process, in made-up control groups of both versions."""

from pathlib import Path

from agent.proc.frozen_cgroup import frozen_by
from tests.unit.agent.proc.test_oom_counts import count, process_in


def test_the_group_that_was_frozen_is_named_and_not_those_that_follow_it(tmp_path: Path) -> None:
    """Version 2: a group below keeps its own 0."""
    root = tmp_path / "cgroup"
    procfs = process_in(tmp_path, "0::/system.slice/docker-4f1c.scope/init\n")
    count(root / "system.slice/docker-4f1c.scope", "1\n", "cgroup.freeze")
    count(root / "system.slice/docker-4f1c.scope/init", "0\n", "cgroup.freeze")
    assert frozen_by(procfs, 7, root) == str(root / "system.slice/docker-4f1c.scope/cgroup.freeze")
    count(root / "system.slice/docker-4f1c.scope", "0\n", "cgroup.freeze")
    assert frozen_by(procfs, 7, root) is None


def test_version_1_has_a_tree_of_its_own(tmp_path: Path) -> None:
    """There another file tells who was frozen than the one that thaws."""
    root = tmp_path / "cgroup"
    procfs = process_in(tmp_path, "9:cpu:/x\n6:freezer:/docker/4f1c\n0::/\n")
    count(root / "freezer/docker/4f1c", "1\n", "freezer.self_freezing")
    assert frozen_by(procfs, 7, root) == str(root / "freezer/docker/4f1c/freezer.state")


def test_of_a_process_that_is_gone_or_lies_nothing_is_known(tmp_path: Path) -> None:
    """No path leads out of the tree."""
    assert frozen_by(process_in(tmp_path, "0::/../../etc\n"), 7, tmp_path / "cgroup") is None
    assert frozen_by(process_in(tmp_path / "other", ""), 8, tmp_path / "cgroup") is None
