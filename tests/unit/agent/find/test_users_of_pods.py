"""Whose a job in pods is: most run as user 0, under names that others have, too, in a namespace of their own."""

from pathlib import Path

import pytest

from agent.find.process_owner import UserNames, user_of
from agent.proc.procfs import ProcFs
from collector.gather.jobs import summarise_jobs
from shared.wire.snapshot import RankList
from tests.build.processes.proc_trees import add_process, make_tree
from tests.build.processes.processes import find

UID, OTHER_UID = "3b1e2c4d-5f60-7182-93a4-b5c6d7e8f901", "3b1e2c4d-5f60-7182-93a4-b5c6d7e8f902"
CONTAINER = "8d9f0c" + "0123456789abcdef" * 3 + "0123456789"
MASTER = {"MASTER_ADDR": "llama-master-0", "MASTER_PORT": "23456", "WORLD_SIZE": "2"}


def node(folder: Path, *pods: str) -> Path:
    """A node on which kubelet keeps the logs of these pods, seen from where only /proc is the node's."""
    for pod in pods:
        (folder / "node/var/log/pods" / pod).mkdir(parents=True)
    proc = make_tree(folder / "proc")
    (proc / "1" / "root").symlink_to(folder / "node")
    return proc


def add_rank(proc: Path, pid: int, rank: int, uid: str, above: str = "/kubepods") -> None:
    """Add a rank that runs in a pod."""
    add_process(proc, pid, 1, {**MASTER, "RANK": str(rank)})
    (proc / str(pid) / "cgroup").write_text(f"0::{above}/pod{uid}/{CONTAINER}\n")


def test_equal_names_in_two_namespaces_are_two_jobs(tmp_path: Path) -> None:
    """Both are user 0's by the kernel; a rank of the one is no second rank 0 of the other."""
    proc = node(tmp_path, f"team-a_llama-master-0_{UID}", f"team-b_llama-master-0_{OTHER_UID}")
    add_rank(proc, 7, 0, UID)
    add_rank(proc, 8, 1, UID)
    add_rank(proc, 9, 0, OTHER_UID)
    listed = RankList(host="node1", ranks=tuple(rank.identity for rank in find(ProcFs(proc)).ranks))
    jobs = {job.name: (job.owner, job.ranks, job.absent) for job in summarise_jobs([listed])}
    name = "llama-master-0:23456"
    assert jobs == {f"{name}@team-a.0": ("team-a", "0-1", ""), f"{name}@team-b.0": ("team-b", "0", "1")}


@pytest.mark.parametrize(
    ("pods", "above"),
    [
        ((), "/kubepods"),
        ((f"team-b_llama_{OTHER_UID}",), "/kubepods"),
        ((f"team-a_llama_{UID}",), "/user.slice/user-1000.slice/kubepods"),
        ((f"Team.A_llama_{UID}", f"team-a_{UID}", f"team_a_llama_{UID}", f"-_llama_{UID}"), "/kubepods"),
    ],
)
def test_nobody_is_taken_to_be_in_a_namespace_that_kubelet_does_not_say(
    tmp_path: Path, pods: tuple[str, ...], above: str
) -> None:
    """No folder, another pod's, a control group that a user has named so, and names that are no namespace's."""
    proc = node(tmp_path, *pods)
    add_rank(proc, 7, 0, UID, above)
    assert user_of(ProcFs(proc), 7) == "0"


def test_users_in_pods_are_shown_by_their_namespace() -> None:
    """An id within a container has no name on the node."""
    names = UserNames()
    assert [names.name_of(user) for user in ("team-a.0", "team-a.c1000", "c1000", None)] == [
        "team-a",
        "team-a",
        None,
        None,
    ]
    assert names.name_of("0") == "root"
