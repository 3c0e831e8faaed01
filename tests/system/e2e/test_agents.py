"""The agent of one node ends, or hangs: the others' answers stand, and of its ranks nothing is made up."""

from contextlib import AbstractContextManager

import pytest

from shared.answer.words import Verdict
from tests.system.e2e.cluster import NODES, Cluster
from tests.system.e2e.jobs import ClusterJob
from tests.system.e2e.judging import assert_hang_is_judged, assert_it_trains

pytestmark = [
    pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace, pytest.mark.root, pytest.mark.timeout(600)
]  # fmt: skip


def broken(cluster: Cluster, fault: str, node: str) -> AbstractContextManager[None]:
    """An agent that was sent SIGKILL or SIGSTOP."""
    return {"killed": cluster.without_agents, "stopped": cluster.with_stopped_agent}[fault](node)


@pytest.mark.parametrize(("fault", "node"), [("killed", "node2"), ("stopped", "node3")])
def test_an_agent_that_is_gone(fault: str, node: str, cluster: Cluster, training: ClusterJob, hung: ClusterJob) -> None:
    """A job that trains is not hung for it, and one that hangs is judged by what the others see."""
    cluster.diagnose(training.name, hung.name)  # so that it is known who was there
    with broken(cluster, fault, node):
        trains, hangs = cluster.diagnose(training.name, hung.name)
    assert_it_trains(trains)
    assert_hang_is_judged(hangs, broken=node)
    for told in (trains, hangs):
        assert told.unseen_hosts == {node}, told.text
    cluster.until(hung.name, lambda told: told.culprits == {2} and not told.unseen_hosts)


def test_agents_that_are_all_gone(cluster: Cluster, training: ClusterJob) -> None:
    """Nothing is seen, and nothing is said about the job."""
    with cluster.without_agents(*NODES):
        (told,) = cluster.diagnose(training.name)
    assert (told.diagnosis.verdict, told.culprits) == (Verdict.CANNOT_TELL, frozenset()), told.text
    assert told.unseen_hosts == set(NODES)
