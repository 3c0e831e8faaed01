"""The collector is killed in the middle of a sweep, and started again."""

import time

import pytest

from collector.question import Stage
from tests.system.e2e.asking import ANSWER_SECONDS
from tests.system.e2e.cluster import NODES, Cluster
from tests.system.e2e.jobs import ClusterJob

pytestmark = [
    pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace, pytest.mark.root, pytest.mark.timeout(600)
]  # fmt: skip


def test_a_collector_that_is_killed(cluster: Cluster, hung: ClusterJob) -> None:
    """What was finished is there afterwards, word for word; what was not is told as interrupted, and asked anew.

    An agent that does not answer holds the sweep up, or it could end before it is killed; collectors that are killed at
    any moment are in `tests/unit/collector/keep/test_killed.py`.
    """
    (before,) = cluster.diagnose(hung.name)
    kept = cluster.asker.kept(hung.name)
    with cluster.with_stopped_agent("node3"):
        id = cluster.asker.begin(hung.name)
        wait_for_others(id, cluster)
        cluster.restart_collector()
    assert cluster.asker.fetch(before.diagnosis.id) == before.diagnosis
    assert cluster.asker.kept(hung.name) == kept
    assert "interrupted" in outcome_of(id, cluster)
    (after,) = cluster.diagnose(hung.name)
    assert after.culprits == {2}, after.text


def wait_for_others(id: str, cluster: Cluster) -> None:
    """Wait until all agents but one have said who is on their nodes."""
    until = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < until:
        answer = cluster.asker.get(f"/v1/diagnoses/{id}")
        assert answer.status_code == 202, "the sweep has ended before it could be killed"
        step = answer.json()["step"]
        if step["stage"] == Stage.FINDING and step["finished"] == len(NODES) - 1:
            return
        time.sleep(0.02)
    raise AssertionError("nobody is found")


def outcome_of(id: str, cluster: Cluster) -> str:
    """Return what is told of a sweep that was cut short, once its collector counts as gone."""
    until = time.monotonic() + ANSWER_SECONDS
    while (answer := cluster.asker.get(f"/v1/diagnoses/{id}")).status_code == 202 and time.monotonic() < until:
        time.sleep(0.1)
    assert answer.status_code == 410, answer.text
    detail: str = answer.json()["detail"]
    return detail
