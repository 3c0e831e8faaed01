"""What may hold several jobs: one thing by its own name, and never the same sort of trouble."""

import pytest

from collector.detect.roots import roots_of
from shared.answer.action import Action
from shared.answer.diagnosis import Culprit, FdEvidence, Finding, GpuEvidence, PortEvidence
from shared.answer.words import Act, Cause, Certainty, Kind

GPU = GpuEvidence(ranks="3", text="", host="n1", index=3, device="0000:c8:00.0")
PORT = PortEvidence(ranks="3", text="", host="n1", port="mlx5_0/1")
SERVER = FdEvidence(ranks="3", text="", target="/mnt/nfs", mounted="nas1:/export")
THAW = Action(do=Act.FREE, text="", command="echo THAWED > /sys/fs/cgroup/freezer/pod/freezer.state", host="n1")


def found(**more: object) -> Finding:
    """A finding about rank 3 of node n1."""
    given = {"kind": Kind.RANK_NOT_JOINED, "certainty": Certainty.PROVEN, "culprits": (Culprit(rank=3, host="n1"),)}
    return Finding.model_validate({**given, **more})


@pytest.mark.parametrize(
    ("finding", "roots"),
    [
        (found(cause=Cause.GPU_FAULT, evidence=(GPU, PORT)), ("GPU 0000:c8:00.0 of n1",)),
        (found(cause=Cause.NETWORK, evidence=(GPU, PORT)), ("port mlx5_0/1 of n1",)),
        (found(cause=Cause.USER_CODE, evidence=(GPU, PORT)), ()),
        (found(cause=Cause.FILESYSTEM, evidence=(SERVER,)), ("file system nas1:/export",)),
        (found(cause=Cause.FILESYSTEM), ()),
        (found(kind=Kind.RANK_UNREACHABLE), ("node n1",)),
        (found(action=THAW), (f"`{THAW.command}` on n1 frees it",)),
        (found(action=THAW.model_copy(update={"command": None})), ()),
        (found(action=THAW.model_copy(update={"do": Act.COLLECT})), ()),
    ],
)
def test_root_of_a_finding(finding: Finding, roots: tuple[str, ...]) -> None:
    """A device is one where it is the cause, a command where it frees; a cause alone, or a node, is none."""
    assert roots_of(finding) == roots
