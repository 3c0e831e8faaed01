"""The cable of one node is out, loses packets or is slow. A slow network is no hang."""

import pytest

from shared.answer.words import Kind, Verdict
from tests.system.e2e.cluster import Cluster
from tests.system.e2e.jobs import ClusterJob, ranks_of
from tests.system.e2e.judging import assert_hang_is_judged, assert_it_trains

pytestmark = [
    pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace, pytest.mark.root, pytest.mark.timeout(600)
]  # fmt: skip

BAD_CABLES = {"loses 30 %": {"loss": 0.3}, "500 ms late": {"delay_seconds": 0.5}}


@pytest.mark.parametrize(("how", "node"), [*zip(BAD_CABLES, ("node3", "node2"), strict=True)])
def test_a_cable_that_is_bad(how: str, node: str, cluster: Cluster, training: ClusterJob, hung: ClusterJob) -> None:
    """What trains goes on training, slowly, and the hang of the other job is still told from that."""
    with cluster.network.bad_cable(node, **BAD_CABLES[how]):
        trains, hangs = cluster.diagnose(training.name, hung.name)
    assert_it_trains(trains, slow=ranks_of(node))
    assert_hang_is_judged(hangs, broken=node)
    assert trains.unseen_hosts | hangs.unseen_hosts <= {node}
    cluster.until(training.name, lambda told: told.diagnosis.verdict is Verdict.NOT_HUNG)


def test_a_cable_that_is_out(cluster: Cluster, training: ClusterJob, hung: ClusterJob) -> None:
    """All wait for the node: it is named, at first with doubt. Once the cable is in again, the job trains on.

    On a busy machine its usual pauses are long, and it is no longer told to train only when this one is longer.
    """
    cluster.diagnose(training.name, hung.name)
    with cluster.network.unplugged("node3"):
        cluster.until(training.name, lambda told: told.diagnosis.verdict is not Verdict.NOT_HUNG)
        cut_off, hangs = cluster.diagnose(training.name, hung.name)
    assert_hang_is_judged(hangs, broken="node3")
    assert cut_off.diagnosis.verdict in (Verdict.HUNG, Verdict.CANNOT_TELL), cut_off.text
    assert "node3" in cut_off.diagnosis.headline
    assert cut_off.culprits <= ranks_of("node3")
    assert {finding.kind for finding in cut_off.diagnosis.findings} <= {Kind.RANK_UNREACHABLE}
    for told in (cut_off, hangs):
        assert told.unseen_hosts == {"node3"}, told.text
    cluster.until(training.name, lambda told: told.diagnosis.verdict is Verdict.NOT_HUNG)
