"""One cluster for all these tests, and two jobs on it: one that trains, and one that hangs for good."""

from collections.abc import Iterator

import pytest

from tests.needed import skip_without
from tests.system.e2e.cluster import HEAD, NODES, Cluster, lacking_for_hosts
from tests.system.e2e.jobs import ClusterJob, one_rendezvous
from tests.system.e2e.network import Network


@pytest.fixture(scope="package")
def may_make_hosts() -> None:
    """Skip, with the reason, where this machine does not let us make namespaces."""
    skip_without("ip")
    lacking = lacking_for_hosts()
    if lacking:
        pytest.skip(f"needs namespaces of its own: {lacking}")


@pytest.fixture(scope="package")
def cluster(may_make_hosts: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with agents, and a head with the collector."""
    directory = tmp_path_factory.mktemp("cluster")
    with Network(*NODES, HEAD, directory=directory) as network, Cluster(network, directory) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def training(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterJob]:
    """A job in which nothing is wrong, with several steps between two looks."""
    directory = tmp_path_factory.mktemp("training")
    with ClusterJob(
        "healthy", cluster, directory=directory, name="training", launch=one_rendezvous(29501),
        environment={"UNHANG_TEST_STEP_SECONDS": "0.4"},
    ) as job:  # fmt: skip
        yield job


@pytest.fixture(scope="package")
def hung(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterJob]:
    """A job that hangs: rank 2, on node2, sleeps in its own code, and all others wait for it."""
    directory = tmp_path_factory.mktemp("hung")
    with ClusterJob(
        "asleep_before_collective", cluster, directory=directory, name="hung", launch=one_rendezvous(29502)
    ) as job:
        yield job
