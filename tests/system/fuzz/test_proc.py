"""A hostile or broken process in /proc costs its own facts, never its neighbours', and never the node's answer."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from agent.agent import Agent, RankFilter
from agent.proc.procfs import ProcFs
from agent.settings import AgentSettings
from agent.sources.source import LookDepth
from shared.wire.snapshot import NodeSnapshot
from tests.build.processes.proc_trees import AUXV, STATUS, TORCH, add_process, make_tree, torchrun
from tests.system.fuzz import seeds
from tests.system.fuzz.damage import damaged_bytes
from tests.system.fuzz.test_parsers import EXAMPLES, SEARCH
from tests.system.fuzz.verdicts import check_value

HONEST, HOSTILE = 20, 21

FILES = {
    "stat": b"",
    "environ": b"",
    "status": STATUS.format(name="python3", state="S (sleeping)", pid=21, parent=1).encode(),
    "cmdline": b"python3\0train.py\0--token=x\0",
    "maps": b"7f0000000000-7f0000001000 r--p 00000000 08:01 7 /opt/torch/lib/libtorch_cpu.so\n",
    "io": b"rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4\n",
    "cgroup": b"0::/system.slice/slurmstepd.scope/job_12\n9:memory:/slurm/uid_1000/job_12\n",
    "mountinfo": seeds.MOUNTINFO,
    "fdinfo/3": b"pos:\t0\nflags:\t0100002\nmnt_id:\t36\nino:\t7\n",
    "net/tcp": seeds.NET_TCP,
    "net/tcp6": seeds.NET_TCP,
    "net/unix": seeds.NET_UNIX,
    "limits": b"Limit                     Soft Limit           Hard Limit           Units\n"
    b"Max open files            1024                 4096                 files\n",
    "syscall": b"0 0x3 0x7ffd5a60e3a0 0x1000 0x0 0x0 0x0 0x7ffd5a60e338 0x7f21fa0a19ee\n",
    "wchan": b"futex_do_wait",
    "stack": b"[<0>] futex_do_wait+0x3a/0x60\n",
    "schedstat": b"123 456 7\n",
    "auxv": AUXV,
}
"""What /proc tells of one process; `stat` and `environ` are those that the tree begins with."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two ranks of one job; the second one is whole."""
    root = make_tree(tmp_path_factory.mktemp("fuzz") / "proc")
    for rank, pid in enumerate((HONEST, HOSTILE)):
        add_process(root, pid, 1, torchrun(rank, world_size=2), maps=TORCH)
    folder = root / str(HOSTILE)
    for name in ("fdinfo", "net", "task/21"):
        (folder / name).mkdir(parents=True)
    for name, content in FILES.items():
        if content:
            (folder / name).write_bytes(content)
    for name in ("stat", "status", "schedstat", "io"):
        (folder / "task" / "21" / name).write_bytes((folder / name).read_bytes())
    os.symlink("socket:[43210]", folder / "fd" / "3")
    return root


@pytest.mark.parametrize("name", FILES)
def test_damaged_file_of_a_process(tree: Path, name: str) -> None:
    """The node answers, its answer can travel, and the neighbour is told of."""
    path = tree / str(HOSTILE) / name
    good = path.read_bytes()
    agent = Agent(AgentSettings(host_name="here", beat_seconds=0), ProcFs(tree))

    @settings(parent=SEARCH, max_examples=int(EXAMPLES or 12))
    @given(damaged_bytes((good,)))
    def search(data: bytes) -> None:
        path.write_bytes(data)
        taken = agent.snapshot(RankFilter(), LookDepth("none"))
        check_value(taken)
        assert HONEST in [rank.identity.pid for rank in taken.ranks]

    try:
        search()
    finally:
        path.write_bytes(good)


TARGETS = ("socket:[x]", "pipe:[99999999999999999999]", "/\udc80\x1b[31m\n", "anon_inode:[", "[x]:")


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_descriptor_points_to(tree: Path, target: str) -> None:
    """Names of files are bytes of a user's choice."""
    link = tree / str(HOSTILE) / "fd" / "7"
    os.symlink(target, link)
    try:
        taken = Agent(AgentSettings(host_name="here"), ProcFs(tree)).snapshot(
            RankFilter(), LookDepth("none", full=True)
        )
        check_value(taken)
        assert isinstance(NodeSnapshot.model_validate_json(taken.model_dump_json()), NodeSnapshot)
    finally:
        link.unlink(missing_ok=True)


def test_search_begins_with_a_rank_that_is_seen_whole(tree: Path) -> None:
    """Else nothing would be damaged that anybody reads."""
    taken = Agent(AgentSettings(host_name="here"), ProcFs(tree)).snapshot(RankFilter(), LookDepth("none"))
    hostile = next(rank for rank in taken.ranks if rank.identity.pid == HOSTILE)
    for part in (hostile.process, hostile.fds):
        assert "reason" not in type(part).model_fields, part
