"""What a rank was started with: settings, versions, surroundings; of real processes, and of made-up files."""

import os
import sys
from pathlib import Path

import pytest

from agent.find.launchers import REPORTED
from agent.proc.library_versions import driver_version, read_versions
from agent.proc.procfs import ProcFs
from agent.sources.setup import SetupSource
from shared.wire.setup import Setup
from tests.build.processes.looking import ask_source
from tests.build.processes.ports import free_port
from tests.build.processes.processes import READY, SLEEP, find_rank, rank_environment, running

LISTENS = f"""
import os, socket
server = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"])))
{READY}
time.sleep(600)
"""

MAPPED = f"""
import mmap, os, sys
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        keep = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    globals()[path] = keep
{READY}
time.sleep(600)
"""


def setup_of(pid: int) -> Setup:
    """Ask the source about a process that is a rank."""
    found: Setup = ask_source(SetupSource(), find_rank(pid))
    return found


def test_settings_of_a_rank() -> None:
    """Allowed variables with their values, no others, without secrets; interfaces and CPUs as the kernel tells them."""
    more = {"NCCL_SOCKET_IFNAME": "eth0", "WANDB_API_KEY": "0123", "NCCL_NET": "token=hf_abcdefghijklmnop"}
    with running(SLEEP, env=rank_environment(0, **more, MASTER_PORT="x", MASTER_ADDR="127.0.0.1")) as process:
        found = setup_of(process.pid)
    expected = {"RANK": "0", "MASTER_ADDR": "127.0.0.1", "NCCL_SOCKET_IFNAME": "eth0", "NCCL_NET": "token=***"}
    assert found.variables.items() >= expected.items()
    assert found.variables.keys() <= REPORTED
    assert "lo" in found.interfaces
    assert found.cpus == len(os.sched_getaffinity(0))
    assert found.versions.python == f"3.{sys.version_info.minor}"
    assert (found.versions.torch, found.nccl_loaded, found.listener) == (None, None, None)


def test_versions_are_read_from_files_beside_the_libraries(tmp_path: Path) -> None:
    """PyTorch's and NCCL's own files, none of them imported."""
    torch, nccl = tmp_path / "torch", tmp_path / "nvidia" / "nccl"
    for folder in (torch / "lib", nccl / "lib", nccl / "include"):
        folder.mkdir(parents=True)
    libraries = (torch / "lib" / "libtorch_cpu.so", nccl / "lib" / "libnccl.so.2")
    for library in libraries:
        library.write_bytes(b"\0" * 4096)
    (torch / "version.py").write_text("__version__ = '2.6.0+cu124'\ncuda: Optional[str] = '12.4'\nraise SystemExit\n")
    (nccl / "include" / "nccl.h").write_text("#define NCCL_MAJOR 2\n#define NCCL_MINOR 21\n#define NCCL_PATCH 5\n")
    with running(command=(sys.executable, "-c", MAPPED, *map(str, libraries))) as process:
        found = read_versions(ProcFs(), process.pid)
    assert (found.versions.torch, found.versions.cuda, found.versions.nccl) == ("2.6.0+cu124", "12.4", "2.21.5")
    assert found.nccl


def test_version_in_a_librarys_name(tmp_path: Path) -> None:
    """A system's libnccl; and a version.py that is a FIFO is not waited for."""
    torch = tmp_path / "torch"
    (torch / "lib").mkdir(parents=True)
    libraries = (torch / "lib" / "libtorch.so", tmp_path / "libnccl.so.2.27.3")
    for library in libraries:
        library.write_bytes(b"\0" * 4096)
    os.mkfifo(torch / "version.py")
    with running(command=(sys.executable, "-c", MAPPED, *map(str, libraries))) as process:
        found = read_versions(ProcFs(), process.pid)
    assert (found.versions.torch, found.versions.nccl) == (None, "2.27.3")


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n", "550.54.15"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build\n", "570.86.10"),
        ("garbage\n", None),
    ],
)
def test_driver(tmp_path: Path, line: str, version: str | None) -> None:
    """Both ways in which the driver names itself."""
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text(line)
    assert driver_version(ProcFs(tmp_path)) == version


def test_who_listens_where_the_ranks_meet() -> None:
    """It is of the job where rank 0, or what started it, listens; a stranger is told by pid and name."""
    port, taken = free_port(), free_port()
    with (
        running(LISTENS, env=rank_environment(0, port=port, MASTER_ADDR="127.0.0.1")) as process,
        running(SLEEP, env=rank_environment(1, port=port, MASTER_ADDR="127.0.0.1")) as other,
        running(LISTENS, env={**os.environ, "MASTER_PORT": str(taken)}) as stranger,
        running(SLEEP, env=rank_environment(0, port=taken, MASTER_ADDR="127.0.0.1")) as late,
    ):
        own, none, theirs = (setup_of(each.pid).listener for each in (process, other, late))
    assert own is not None and theirs is not None
    assert (own.pid, own.of_job, own.address) == (process.pid, True, f"127.0.0.1:{port}")
    assert none is None, "only rank 0's node is asked"
    assert (theirs.pid, theirs.of_job, theirs.name.startswith("python")) == (stranger.pid, False, True)
