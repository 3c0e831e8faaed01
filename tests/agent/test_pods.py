"""In which pod a process runs, by the names that kubelets give to control groups."""

from pathlib import Path

import pytest

from agent.pods import Place, place_of
from agent.procfs import ProcFs

UID = "3b1e2c4d-5f60-7182-93a4-b5c6d7e8f901"
UNDER = UID.replace("-", "_")
CONTAINER = "8d9f0c" + "0123456789abcdef" * 3 + "0123456789"


def procfs_with(tmp_path: Path, text: str) -> ProcFs:
    """A process 7 with this file `cgroup`."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(text)
    return ProcFs(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice/cri-containerd-{CONTAINER}.scope",
        f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/crio-{CONTAINER}.scope",
        f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/crio-{CONTAINER}.scope/container",
        f"9:memory:/kubepods/besteffort/pod{UID}/{CONTAINER}",
        f"0::/../../kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice/docker-{CONTAINER}.scope",
        f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDER}.slice/cri-containerd-{CONTAINER}.scope",
    ],
)
def test_pod_and_container_are_read(tmp_path: Path, line: str) -> None:
    """Both drivers, all runtimes, nested clusters, and as seen from another control group namespace."""
    assert place_of(procfs_with(tmp_path, f"12:cpuset:/\n{line}\n"), 7) == Place(UID, CONTAINER)


@pytest.mark.parametrize(
    ("status", "pid"), [("NSpid:\t7\t231\t17\n", 17), ("NSpid:\t7\n", 7), ("Name:\tx\n", None), ("NSpid:\tx\n", None)]
)
def test_process_id_is_told_as_the_container_sees_it(tmp_path: Path, status: str, pid: int | None) -> None:
    """By the innermost namespace; in one that is shared with the node the two are the same."""
    procfs = procfs_with(tmp_path, f"0::/kubepods/pod{UID}/{CONTAINER}\n")
    (tmp_path / "7" / "status").write_text(status)
    assert place_of(procfs, 7) == Place(UID, CONTAINER, pid)


def test_pods_of_the_kubelet_itself_have_another_kind_of_uid(tmp_path: Path) -> None:
    """Static pods are named by a hash without dashes."""
    uid = "b5c6d7e8f90112345678123456781234"
    found = place_of(procfs_with(tmp_path, f"0::/kubepods/pod{uid}/{CONTAINER}\n"), 7)
    assert found is not None and found.pod_uid == uid


@pytest.mark.parametrize(
    "line",
    [
        "0::/system.slice/slurmstepd.scope/job_12/step_0",
        f"0::/system.slice/docker-{CONTAINER}.scope",
        f"0::/kubepods/pod{UID}",
        f"0::/kubepods/pod{UID}/{CONTAINER}abc",
        f"0::/kubepods/pod{UID[:-1]}/{CONTAINER}",
        "0::/" + "pod-" * 20_000,
        "",
    ],
)
def test_others_are_in_none(tmp_path: Path, line: str) -> None:
    """Neither Slurm's groups nor plain containers nor what only looks like one."""
    assert place_of(procfs_with(tmp_path, line), 7) is None


def test_process_that_is_gone_is_in_none(tmp_path: Path) -> None:
    """Nothing is raised for a process that has ended meanwhile."""
    assert place_of(ProcFs(tmp_path), 7) is None
