"""Made-up /proc trees: who runs, below whom, with which variables, without running anything."""

import os
import struct
from collections.abc import Sequence
from pathlib import Path

_KTHREAD = 0x0020_0000

STATUS = (
    "Name:\t{name}\nState:\t{state}\nTgid:\t{pid}\nPPid:\t{parent}\nTracerPid:\t0\nUid:\t0\t0\t0\t0\n"
    "Gid:\t0\t0\t0\t0\nGroups:\t0\nCapPrm:\t000001ffffffffff\nCapEff:\t000001ffffffffff\nCapAmb:\t0000000000000000\n"
)
AUXV = struct.pack("=QQQQ", 23, 0, 0, 0)
"""A program that was not started with more rights than its caller had (AT_SECURE)."""


def make_tree(root: Path) -> Path:
    """Make a tree with nobody but init and return it."""
    root.mkdir()
    (root / "stat").write_text("cpu  1 2 3\nbtime 1700000000\n")
    add_process(root, 1, 0, {}, program="/sbin/init", name="systemd")
    return root


def add_process(
    root: Path,
    pid: int,
    parent: int,
    environment: dict[str, str] | None = None,
    *,
    command: Sequence[str] = ("python3", "train.py"),
    program: str = "/usr/bin/python3.11",
    name: str = "python3",
    state: str = "S",
    maps: Sequence[str] = (),
    start: int | None = None,
    exit_status: int = 0,
    kernel: bool = False,
) -> None:
    """Add one process; without `environment` it has none that can be read."""
    folder = root / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "stat").write_text(stat_line(pid, parent, name, state, start or pid * 10, exit_status, kernel))
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))
    (folder / "maps").write_text("".join(f"7f0000000000-7f0000001000 r--p 00000000 08:01 7 {path}\n" for path in maps))
    (folder / "io").write_text("rchar: 1\nwchar: 2\n")
    os.symlink(program, folder / "exe")
    (folder / "status").write_text(STATUS.format(name=name, state=state, pid=pid, parent=parent))
    (folder / "auxv").write_bytes(AUXV)
    if environment is not None:
        (folder / "environ").write_bytes(b"".join(f"{k}={v}".encode() + b"\0" for k, v in environment.items()))


def stat_line(
    pid: int, parent: int, name: str, state: str, start: int, exit_status: int = 0, kernel: bool = False
) -> str:
    """Return a line of /proc/PID/stat."""
    fields = [0] * 52
    fields[3], fields[8], fields[13], fields[14] = parent, _KTHREAD if kernel else 0, 150, 50
    fields[19], fields[21], fields[23], fields[27], fields[51] = 3, start, 1000, 0x7FFC0000, exit_status
    return f"{pid} ({name}) {state} " + " ".join(map(str, fields[3:])) + "\n"


TORCH = ("/opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so",)


def torchrun(rank: int, *, run_id: str = "night", world_size: int = 4, attempt: int = 0) -> dict[str, str]:
    """Return what torchrun sets for one of four ranks of a node."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % 4),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_RANK": str(rank // 4),
        "MASTER_ADDR": "node1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": run_id,
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
    }


def slurm(rank: int, *, job: str = "4242", step: str = "0") -> dict[str, str]:
    """Return what Slurm sets for one task of a step."""
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NTASKS": "4",
        "SLURM_JOB_ID": job,
        "SLURM_STEP_ID": step,
    }
