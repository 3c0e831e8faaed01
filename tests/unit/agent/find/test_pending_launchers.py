"""Launchers that wait for nodes that have not come are told, and nobody else is taken for one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.find.pending_launchers import meeting_words, waiting_launchers
from agent.find.processes import Lister
from agent.look.node import Node
from agent.proc.procfs import ProcFs
from shared.missing import WAITING_LAUNCHERS, Missing, Reason
from tests.build.processes.proc_trees import add_process, make_tree, torchrun
from tests.build.processes.processes import running, until

TORCHRUN = (
    "python3",
    "/opt/venv/bin/torchrun",
    "--nnodes=2",
    "--rdzv-endpoint",
    "head:29500",
    "train.py",
    "--nnodes=9",
)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (TORCHRUN, "--nnodes=2 --rdzv-endpoint head:29500"),
        (("python", "-m", "torch.distributed.run", "--nnodes", "1:4", "--nproc-per-node", "8", "x.py"), "--nnodes 1:4"),
        (
            ("torchrun", "--node_rank=1", "--master_addr=n0", "-m", "app", "--rdzv-id=7"),
            "--node_rank=1 --master_addr=n0",
        ),
        (
            ("accelerate", "launch", "--num_machines", "2", "--main_process_ip", "n0", "x.py"),
            "--num_machines 2 --main_process_ip n0",
        ),
        (("torchrun", "x.py"), ""),
        (("torchrun", "--rdzv-endpoint"), "--rdzv-endpoint"),
        (("accelerate", "config"), None),
        (("python", "train.py", "--launcher", "torchrun"), None),
        (("vim", "torchrun"), None),
        (("python3.11", "-u", "/opt/bin/torchrun", "--nnodes=2"), "--nnodes=2"),
        (("python", "-m", "pytest", "torchrun"), None),
        (("python",), None),
        ((), None),
    ],
)
def test_words_of_a_command_line(arguments: tuple[str, ...], words: str | None) -> None:
    """Those before the program that it starts, as they were written."""
    assert meeting_words(list(arguments)) == words


def told(root: Path) -> dict[int, Missing]:
    """What is told of a made-up tree."""
    procfs = ProcFs(root)
    lister = Lister(procfs, own_pid=99_999)
    return dict(waiting_launchers(lister.listing(), lister, procfs))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A node whose launcher has started nobody, beside one that has."""
    root = make_tree(tmp_path / "proc")
    add_process(root, 10, 1, {}, command=TORCHRUN, name="pt_elastic")
    add_process(root, 20, 1, {}, command=TORCHRUN)
    add_process(root, 21, 20, torchrun(0))
    return root


def test_launcher_that_has_started_nobody(tree: Path) -> None:
    """With whom it meets and where; one with a rank below it is at work."""
    found = told(tree)
    assert list(found) == [10]
    assert (found[10].source, found[10].reason) == (WAITING_LAUNCHERS, Reason.NOT_FOUND)
    assert "pid 10 has run for" in found[10].detail
    assert "(--nnodes=2 --rdzv-endpoint head:29500)" in found[10].detail


def test_launcher_whose_ranks_have_died_waits_again(tree: Path) -> None:
    """As after the loss of a node: what is not reaped is nobody."""
    add_process(tree, 11, 10, torchrun(1), state="Z")
    assert list(told(tree)) == [10]
    assert "has no rank (--nnodes=2" in told(tree)[10].detail and "have ended" in told(tree)[10].detail


def test_launcher_that_cannot_be_asked_or_has_just_begun(tree: Path) -> None:
    """Its command line may block, or is gone; or it imports PyTorch still."""
    now = int((Path("/proc/uptime").read_text()).split(".")[0]) * os.sysconf("SC_CLK_TCK")
    add_process(tree, 30, 1, {}, command=TORCHRUN, state="D")
    add_process(tree, 31, 1, {}, command=TORCHRUN, state="Z")
    add_process(tree, 32, 1, {}, command=TORCHRUN, start=now)
    assert list(told(tree)) == [10]


def test_many_launchers_are_cut(tree: Path) -> None:
    """A user may start thousands; passwords on their command lines are hidden."""
    add_process(tree, 30, 1, {}, command=("torchrun", "--rdzv-endpoint=http://ada:hunter2@head:29500", "x.py"))
    for pid in range(100, 200):
        add_process(tree, pid, 1, {}, command=("torchrun", "--rdzv-id=" + "x" * 9000))
    found = told(tree)
    assert len(found) == 8 and "hunter2" not in found[30].detail
    assert max(len(each.detail) for each in found.values()) < 600


# As `accelerate config` of accelerate 1.12 writes it for two machines with eight GPUs each.
ACCELERATE = """compute_environment: LOCAL_MACHINE
debug: false
distributed_type: MULTI_GPU
machine_rank: 0
main_process_ip: 10.0.0.1
main_process_port: 29500
main_training_function: main
num_machines: 2
num_processes: 16
"""


@pytest.mark.parametrize("where", ["config_file", "relative", "HF_HOME", "HOME", "nowhere"])
def test_accelerate_whose_file_says_whom_it_meets(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process of that name: the nodes that it waits for stand in the file, and its command line counts more."""
    monkeypatch.setattr("agent.find.pending_launchers._SOON_SECONDS", 0.0)
    folder = tmp_path / {"HF_HOME": "accelerate", "HOME": ".cache/huggingface/accelerate"}.get(where, "job")
    folder.mkdir(parents=True)
    (file := folder / "default_config.yaml").write_text(ACCELERATE if where != "nowhere" else "num_processes: 16\n")
    (script := tmp_path / "bin" / "accelerate").parent.mkdir()
    script.write_text("import time; time.sleep(1000)")
    named = {"config_file": (f"--config_file={file}",), "relative": ("--config_file", file.name)}
    command = (sys.executable, str(script), "launch", "--main_process_ip", "head", *named.get(where, ()), "train.py")
    variables = {"HOME": str(tmp_path), **({"HF_HOME": str(tmp_path)} if where == "HF_HOME" else {})}
    procfs = ProcFs()
    lister = Lister(procfs)
    with subprocess.Popen(command, cwd=folder, env=variables) as process:
        try:
            pid = process.pid
            found = until(
                lambda: dict(waiting_launchers(lister.listing(), lister, procfs)), lambda told: pid in told, 30
            )
        finally:
            process.kill()
    said = f"--main_process_ip head; {file}: --machine_rank 0 --main_process_port 29500 --num_machines 2)"
    assert (said in found[pid].detail and "nodes that have not arrived" in found[pid].detail) is (where != "nowhere")
    assert ("waits for no other node" in found[pid].detail) is (where == "nowhere")


@pytest.fixture
def launcher() -> Iterator[int]:
    """A real torchrun whose other node never comes."""
    where = ("--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--rdzv-id=alone", "--nnodes=2")
    command = (sys.executable, "-m", "torch.distributed.run", *where, "train.py")
    with running(command=command, wait=False, stderr=-3) as process:
        yield process.pid


def has_sockets(pid: int) -> bool:
    """Has it begun to meet others?"""
    for opened in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if os.readlink(opened).startswith("socket:"):
                return True
    return False


@pytest.mark.live
def test_real_torchrun_in_rendezvous(launcher: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no process below it, whatever the kernel calls it; an agent of other users says nothing of it."""
    monkeypatch.setattr("agent.find.pending_launchers._SOON_SECONDS", 1.0)
    until(lambda: has_sockets(launcher), bool, 120)
    node = Node(ProcFs(), "here", ThreadPool())

    def of_it(asked: Node) -> list[str]:
        return [m.detail for m in asked.find(Deadline(10)).missing if f"pid {launcher} " in m.detail]

    (detail,) = until(lambda: of_it(node), bool, 60)
    assert "--rdzv-endpoint=127.0.0.1:0 --rdzv-id=alone --nnodes=2" in detail
    assert of_it(Node(ProcFs(), "here", ThreadPool(), only_users=frozenset({61_234}))) == []
