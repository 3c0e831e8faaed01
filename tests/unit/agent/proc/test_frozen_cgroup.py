"""Which file thaws a process, in made-up control groups of both versions."""

from pathlib import Path

import pytest

from agent.proc.frozen_cgroup import frozen_by
from tests.unit.agent.proc.test_oom_counts import count, process_in

SCOPE = "system.slice/docker-4f1c.scope"


@pytest.mark.parametrize("mounted", ["", "unified"], ids=["alone", "beside version 1"])
@pytest.mark.parametrize(
    ("state", "wchan", "events", "is_frozen"),
    [
        ("S", "do_freezer_trap", "", True),
        ("S", "get_signal", "populated 1\nfrozen 0\n", True),  # another process of it cannot be frozen now
        ("S", None, "populated 1\nfrozen 1\n", True),
        ("S", None, "populated 1\nfrozen 0\n", False),
        ("D", "rpc_wait_bit_killable", "populated 1\nfrozen 0\n", False),
        ("S", "futex_do_wait", "populated 1\nfrozen 0\n", False),
    ],
)
def test_version_2_tells_by_the_trap_else_by_the_groups_events(
    mounted: str, state: str, wchan: str | None, events: str, is_frozen: bool, tmp_path: Path
) -> None:
    """The group that was frozen is named, not those that follow it: a group below keeps its own 0."""
    root = tmp_path / "cgroup"
    procfs = process_in(tmp_path, f"0::/{SCOPE}/init\n")
    count(root / mounted / SCOPE, "1\n", "cgroup.freeze")
    count(root / mounted / SCOPE / "init", "0\n", "cgroup.freeze")
    count(root / mounted / SCOPE / "init", events, "cgroup.events")
    thaws = str(root / mounted / SCOPE / "cgroup.freeze")
    assert frozen_by(procfs, 7, state=state, wchan=wchan, cgroups=root) == (thaws if is_frozen else None)
    count(root / mounted / SCOPE, "0\n", "cgroup.freeze")
    assert frozen_by(procfs, 7, state=state, wchan=wchan, cgroups=root) is None


def test_version_1_has_a_tree_of_its_own(tmp_path: Path) -> None:
    """There another file tells who was frozen than the one that thaws."""
    root = tmp_path / "cgroup"
    procfs = process_in(tmp_path, "9:cpu:/x\n6:freezer:/docker/4f1c\n0::/\n")
    count(root / "freezer/docker/4f1c", "1\n", "freezer.self_freezing")
    thaws = str(root / "freezer/docker/4f1c/freezer.state")
    assert frozen_by(procfs, 7, state="D", wchan="hrtimer_nanosleep", cgroups=root) == thaws
    assert frozen_by(procfs, 7, state="S", wchan=None, cgroups=root) is None


def test_of_a_process_that_is_gone_or_lies_nothing_is_known(tmp_path: Path) -> None:
    """No path leads out of the tree."""
    root = tmp_path / "cgroup"
    assert frozen_by(process_in(tmp_path, "0::/../../etc\n"), 7, state="S", wchan="get_signal", cgroups=root) is None
    assert frozen_by(process_in(tmp_path / "other", ""), 8, state="S", wchan="get_signal", cgroups=root) is None
