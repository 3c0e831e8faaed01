"""In which pod a process runs, by the names that kubelets give to control groups."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.find.pod_of_process import ContainerPlace, kubelets_place_of, place_of
from agent.proc.oom_counts import CGROUPS
from agent.proc.procfs import ProcFs

UID = "3b1e2c4d-5f60-7182-93a4-b5c6d7e8f901"
UNDER = UID.replace("-", "_")
CONTAINER = "8d9f0c" + "0123456789abcdef" * 3 + "0123456789"


def procfs_with(tmp_path: Path, text: str) -> ProcFs:
    """A process 7 with this file `cgroup`."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(text)
    return ProcFs(tmp_path)


SCOPE = f"kubepods.slice/kubepods-pod{UNDER}.slice/cri-containerd-{CONTAINER}.scope"
STATIC = "b5c6d7e8f90112345678123456781234"

KUBELETS = [
    f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice/cri-containerd-{CONTAINER}.scope",
    f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/crio-{CONTAINER}.scope",
    f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/crio-{CONTAINER}.scope/container",
    f"9:memory:/kubepods/besteffort/pod{UID}/{CONTAINER}",
    f"0::/../../kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice/docker-{CONTAINER}.scope",
    f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDER}.slice/cri-containerd-{CONTAINER}.scope",
    f"0::/kubepods/pod{STATIC}/{CONTAINER}",  # the kubelet's own are named by a hash without dashes
]
USERS = [
    f"0::/{above}/{SCOPE}"  # whoever may make control groups below their own may call them what they like
    for above in ("user.slice/user-1000.slice/user@1000.service", "system.slice/job.service", "kube")
]
OTHERS = [
    "0::/system.slice/slurmstepd.scope/job_12/step_0",
    f"0::/system.slice/docker-{CONTAINER}.scope",
    f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{CONTAINER}.scope/container",
    f"4:memory:/docker/{CONTAINER}",
    f"0::/kubepods/pod{UID}",
    f"0::/kubepods/pod{UID}/{CONTAINER}abc",
    f"0::/kubepods/pod{UID[:-1]}/{CONTAINER}",
    "0::/" + "pod-" * 20_000,
    "",
]


@pytest.mark.parametrize("line", [*KUBELETS, *USERS, *OTHERS])
def test_pod_and_container_are_read(tmp_path: Path, line: str) -> None:
    """Both drivers, all runtimes, nested clusters, and as seen from another namespace; nobody is in a pod otherwise."""
    procfs = procfs_with(tmp_path, f"12:cpuset:/\n{line}\n")
    uid = STATIC if STATIC in line else UID
    assert place_of(procfs, 7) == (None if line in OTHERS else ContainerPlace(uid, CONTAINER))
    assert kubelets_place_of(procfs, 7) == (ContainerPlace(uid, CONTAINER) if line in KUBELETS else None)
    assert place_of(procfs, 8) is None  # it has ended meanwhile


@pytest.mark.parametrize(
    ("status", "pid"), [("NSpid:\t7\t231\t17\n", 17), ("NSpid:\t7\n", 7), ("Name:\tx\n", None), ("NSpid:\tx\n", None)]
)
def test_process_id_is_told_as_the_container_sees_it(tmp_path: Path, status: str, pid: int | None) -> None:
    """By the innermost namespace; in one that is shared with the node the two are the same."""
    procfs = procfs_with(tmp_path, f"0::/kubepods/pod{UID}/{CONTAINER}\n")
    (tmp_path / "7" / "status").write_text(status)
    assert place_of(procfs, 7) == ContainerPlace(UID, CONTAINER, pid)


@contextmanager
def kubelets_group() -> Iterator[Path]:
    """A control group of the container, at the end of those that a kubelet would make; all are removed again."""
    parent = CGROUPS / "memory" if (CGROUPS / "memory").is_dir() else CGROUPS
    top = parent / f"kubepods-of-test-{os.getpid()}"
    made = [top, top / f"pod{UID}", top / f"pod{UID}" / CONTAINER]
    try:
        try:
            for folder in made:
                folder.mkdir()
        except OSError as error:
            pytest.skip(f"no control group can be made here: {error}")
        yield made[-1]
    finally:
        for folder in reversed(made):
            if folder.exists():
                folder.rmdir()


@pytest.mark.root
def test_real_process_in_a_container_of_its_own() -> None:
    """By the kernel's own files: its group's names, and its number in the process namespace that it is the first of."""
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    with kubelets_group() as group:
        enter = f'echo $$ > {group}/cgroup.procs && exec unshare --pid --fork {sys.executable} -c "$0"'
        with subprocess.Popen(
            ["sh", "-c", enter, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdin is not None and running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            (child,) = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            places = place_of(ProcFs(), running.pid), place_of(ProcFs(), int(child))
            running.stdin.close()
    assert places == (ContainerPlace(UID, CONTAINER, running.pid), ContainerPlace(UID, CONTAINER, 1))
