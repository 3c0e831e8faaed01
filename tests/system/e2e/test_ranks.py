"""The ranks of one host are killed, or never start as they should."""

import signal
from pathlib import Path

import pytest

from shared.answer.checks import CheckId
from shared.answer.words import Kind, Verdict
from shared.rank_sets import unfold
from tests.system.e2e.cluster import Cluster
from tests.system.e2e.jobs import WORLD, ClusterJob, one_rendezvous, ranks_of, two_masters, two_rendezvous

pytestmark = [
    pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace, pytest.mark.root, pytest.mark.timeout(600)
]  # fmt: skip

CHECKPOINT = Path(__file__).with_name("checkpoint.py")


def test_the_ranks_of_a_host_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    """They are told as ended, with how and where; the others only wait for them."""
    node, lost = "node3", ranks_of("node3")
    environment = {"WRITERS": ",".join(map(str, lost))}
    with ClusterJob(
        "healthy", cluster, directory=tmp_path, name="saving", launch=one_rendezvous(29503), script=CHECKPOINT,
        environment=environment,
    ) as job:  # fmt: skip
        job.wait_until_still()
        cluster.diagnose(job.name)
        job.signal(lost, signal.SIGKILL)
        told = cluster.until(job.name, lambda told: told.diagnosis.verdict is Verdict.HUNG)
    (finding,) = told.diagnosis.findings
    assert (finding.kind, told.culprits) == (Kind.RANK_EXITED, lost), told.text
    assert {culprit.host for culprit in finding.culprits} == {node}
    assert frozenset(unfold(finding.victims)) == frozenset(range(WORLD)) - lost
    assert told.unseen_hosts == {node}, told.text


def test_an_interface_that_one_host_has_not(cluster: Cluster, tmp_path: Path) -> None:
    """Its ranks fail where the others wait for them: they are told as ended, on their host.

    Theirs are real interpreters: forks would fail before any agent has seen them.
    """
    lost = ranks_of("node2")
    with ClusterJob(
        "second_node_never_came", cluster, directory=tmp_path, name="misnamed",
        launch=one_rendezvous(29504, executing=["node2"]),
        on={"node2": {"GLOO_SOCKET_IFNAME": "eth9"}},
    ) as job:  # fmt: skip
        told = cluster.until(job.name, lambda told: told.diagnosis.verdict is Verdict.HUNG)
        assert "Unable to find address for: eth9" in job.output
    (finding,) = told.diagnosis.findings
    assert (finding.kind, told.culprits) == (Kind.RANK_EXITED, lost), told.text
    assert {culprit.host for culprit in finding.culprits} == {"node2"}


def test_two_rendezvous_that_both_train(cluster: Cluster, tmp_path: Path) -> None:
    """Nothing hangs, nobody is blamed, and that these are two jobs is told with the hosts of both."""
    with ClusterJob("healthy", cluster, directory=tmp_path, name="split", launch=two_rendezvous(29505)) as job:
        told = cluster.until(job.name, lambda told: told.diagnosis.verdict is Verdict.NOT_HUNG)
    assert told.culprits == frozenset()
    (check,) = (check for check in told.diagnosis.checks if check.id is CheckId.TWO_RENDEZVOUS)
    assert "ranks 0-3 on 2 hosts meet at node1" in check.seen and "ranks 0-1 on node3 meet at node3" in check.seen


def test_two_rendezvous_that_wait_for_each_other(cluster: Cluster, tmp_path: Path) -> None:
    """Each half lacks the ranks of the other: where those are is told, and none of them is blamed for it."""
    with ClusterJob(
        "second_node_never_came", cluster, directory=tmp_path, name="node1:29506", launch=two_masters(29506)
    ) as job:
        (told,) = cluster.diagnose(job.name)
    assert told.diagnosis.verdict is not Verdict.NOT_HUNG, told.text
    (check,) = (check for check in told.diagnosis.checks if check.id is CheckId.TWO_RENDEZVOUS)
    assert "ranks 4-5 of 6 are in job node3:29506 on node3" in check.seen.replace("'", ""), told.text
