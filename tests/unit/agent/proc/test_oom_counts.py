"""What control groups of both versions tell, made-up ones: who was killed for want of memory, which file thaws whom."""

from pathlib import Path

import pytest

from agent.proc.frozen_cgroup import frozen_by
from agent.proc.oom_counts import count_at, oom_counts, oom_kills
from agent.proc.procfs import ProcFs


def process_in(tmp_path: Path, line: str) -> ProcFs:
    """A process in a control group."""
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(line)
    return ProcFs(tmp_path / "proc")


def count(folder: Path, text: str, name: str = "memory.events") -> None:
    """Let one group count."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_groups_above_count_as_well(tmp_path: Path) -> None:
    """When the step's own group is removed, the job's still tells."""
    root = tmp_path / "cgroup"
    procfs = process_in(tmp_path, "0::/job_12/step_0/task_3\n")
    count(root / "job_12", "low 0\nhigh 3\nmax 2\noom 1\noom_kill 5\n")
    count(root / "job_12/step_0", "oom_kill 2\noom_group_kill 0\n")
    found = oom_counts(procfs, 7, root)
    assert [(each.path.parent.name, each.kills, each.own) for each in found] == [
        ("step_0", 2, False),
        ("job_12", 5, False),
    ]
    count(root / "job_12/step_0/task_3", "oom_kill 1\n")
    assert [(each.kills, each.own) for each in oom_counts(procfs, 7, root)] == [(1, True), (2, False), (5, False)]
    assert oom_kills(procfs, 7, root) == 1


def test_version_1_counts_in_its_own_tree(tmp_path: Path) -> None:
    """Beside a tree of version 2 that has no memory controller; groups above do not count for it."""
    root = tmp_path / "cgroup"
    count(root / "memory/slurm/job_1", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", "memory.oom_control")
    count(root / "memory/slurm", "oom_kill 9\n", "memory.oom_control")
    procfs = process_in(tmp_path, "9:cpu:/x\n4:memory:/slurm/job_1\n0::/\n")
    assert [(each.kills, each.own) for each in oom_counts(procfs, 7, root)] == [(2, True)]


@pytest.mark.parametrize(
    "line", ["", "0::/../../etc\n", "0::/nowhere\n", "garbage\n", "0::" + "/x" * 5000 + "\n", "4:memory:/../x\n"]
)
def test_groups_that_tell_nothing(tmp_path: Path, line: str) -> None:
    """Not known is not none; and nobody is led out of the tree."""
    count(tmp_path / "etc", "oom_kill 3\n")
    assert oom_counts(process_in(tmp_path, line), 7, tmp_path / "cgroup") == ()


@pytest.mark.parametrize("text", ["", "oom_kill x\n", "oom_kill -1\n", "oom_kill  \n", "oom_killer 3\n", "\xff\xfe"])
def test_counters_that_make_no_sense(tmp_path: Path, text: str) -> None:
    """A file of the kernel's, or of whoever mounted something there."""
    (tmp_path / "memory.events").write_text(text, encoding="latin-1")
    assert count_at(tmp_path / "memory.events") is None


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
