"""Agents and pods of jobs, as a real HTTPS server in the place of Kubernetes' API tells of them."""

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from collector.agents.kubernetes.kubernetes_source import KubernetesPods
from collector.agents.pods_of_ranks import pods_of
from collector.agents.polling import PolledSource
from shared.errors import InvalidSettings
from shared.missing import Reason
from shared.wire.snapshot import Identity
from tests.build.services.discovery_servers import http_server
from tests.build.services.kubernetes_cluster import Cluster, pod

URL = "http://{host}:8471"
AGENTS = "app=unhang-agent"


@pytest.fixture
def authority() -> trustme.CA:
    """Who signs the API server's certificate."""
    return trustme.CA()


@pytest.fixture
def account(tmp_path: Path, authority: trustme.CA) -> Path:
    """The files of a service account."""
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("unhang")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    return tmp_path


@pytest.fixture
def cluster() -> Cluster:
    """Three nodes with agents, one of which is not well, and a job of two pods."""
    labels = {"app": "unhang-agent"}
    agents = [pod(f"agent-{n}", node=f"node{n}", ip=f"192.0.2.{n}", labels=labels) for n in (1, 2, 3)]
    agents.append(pod("agent-4", node="node4", labels=labels, phase="Pending", reason="ImagePullBackOff"))
    agents.append(pod("other", node="node1", ip="192.0.2.99"))
    ended = {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    container = {"name": "train", "containerID": "containerd://abc", "restartCount": 3, **ended}
    job = {"training.kubeflow.org/job-name": "llama", "batch.kubernetes.io/job-name": "not-this"}
    worker = pod("w-0", node="node1", namespace="team", labels=job, containerStatuses=[container])
    lost = pod("w-1", node="node2", namespace="team", labels=job, phase="Failed", reason="Evicted")
    stranger = pod("x-0", node="node2", namespace="team", labels={"job-name": "other"})
    return Cluster(unhang=agents, team=[worker, lost, stranger])


@pytest.fixture
def api(cluster: Cluster, authority: trustme.CA) -> Iterator[str]:
    """The API server's URL, HTTPS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with cluster.serving(context) as base:
        yield base


def standing_of(api: str, account: Path, *namespaces: str) -> PolledSource:
    """A source that asks this server."""
    source = KubernetesPods(AGENTS, agent_url=URL, environment={}, job_namespaces=namespaces, api=api, account=account)
    return PolledSource(source, deadline_seconds=5)


async def test_agents_are_the_pods_with_the_label(api: str, account: Path) -> None:
    """All pages; the node's name and the pod's address; a pod that does not run is told with its node."""
    standing = standing_of(api, account)
    await standing.refresh()
    seen = [(s.address.host, s.address.url, s.labels["pod"]) for s in standing.reading.sightings]
    assert seen == [(f"node{n}", f"http://192.0.2.{n}:8471", f"agent-{n}") for n in (1, 2, 3)]
    assert [missing.detail for missing in standing.reading.missing] == [
        "no agent on node node4: pod agent-4 is Pending ImagePullBackOff"
    ]


async def test_token_is_read_again_and_a_refusal_keeps_the_agents(api: str, account: Path, cluster: Cluster) -> None:
    """Kubernetes renews tokens; until the file has the new one, what was known stands."""
    standing = standing_of(api, account)
    await standing.refresh()
    cluster.token = "second"
    await standing.refresh()
    assert standing.trouble is not None and standing.trouble.reason is Reason.NOT_PERMITTED
    assert len(standing.reading.sightings) == 3
    (account / "token").write_text("second")
    await standing.refresh()
    assert standing.trouble is None


@pytest.mark.parametrize("namespace", ["team", "*"])
async def test_ranks_are_joined_to_their_pods(api: str, account: Path, namespace: str) -> None:
    """By the uid that agents tell; the job's other pods stand beside, those of other jobs do not."""
    standing = standing_of(api, account, namespace)
    await standing.refresh()
    pods = {each.uid: each for each in standing.reading.pods}
    ranks = [Identity(job="j", rank=rank, pod_uid="uid-w-0", container_id="abc") for rank in (0, 1)]
    joined = pods_of([*ranks, Identity(job="j", rank=2)], pods)
    assert [(p.name, p.container, p.job, p.node, p.ranks, p.phase, p.reason, p.restarts) for p in joined] == [
        ("w-0", "train", "llama", "node1", "0-1", "Running", "OOMKilled", 3),
        ("w-1", None, "llama", "node2", "", "Failed", "Evicted", 0),
    ]
    assert pods_of([Identity(job="j", rank=2)], pods) == ()


async def test_agents_are_found_where_jobs_may_not_be_listed(api: str, account: Path, cluster: Cluster) -> None:
    """A Role in one namespace is enough for the rest."""
    cluster.forbidden.add("team")
    standing = standing_of(api, account, "team")
    await standing.refresh()
    assert (len(standing.reading.sightings), standing.trouble) == (3, None)
    assert standing.reading.missing[-1].reason is Reason.NOT_PERMITTED


async def test_only_lists_of_pods_are_asked_for(api: str, account: Path, cluster: Cluster) -> None:
    """The right to list pods is all that is needed."""
    standing = standing_of(api, account, "team")
    await standing.refresh()
    assert {urlsplit(path).path for path in cluster.asked} == {
        "/api/v1/namespaces/unhang/pods",
        "/api/v1/namespaces/team/pods",
    }


async def test_server_with_another_authority_is_not_believed(api: str, account: Path, cluster: Cluster) -> None:
    """The token is not sent to it."""
    trustme.CA().cert_pem.write_to_path(account / "ca.crt")
    standing = standing_of(api, account)
    await standing.refresh()
    assert standing.trouble is not None and "TLS failed" in standing.trouble.detail
    assert cluster.asked == []


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"items": 7}',
        b"\xff",
        b'{"items": [{"metadata": 1}]}',
    ],
)
async def test_answer_that_is_no_list_is_told(account: Path, body: bytes) -> None:
    """Whatever listens there."""
    with http_server(lambda path, headers: (200, body)) as base:
        standing = standing_of(base, account)
        await standing.refresh()
    assert standing.trouble is not None and standing.trouble.reason is Reason.UNREADABLE


async def test_pod_with_a_node_or_an_address_that_is_none_costs_itself(
    api: str, account: Path, cluster: Cluster
) -> None:
    """The others are agents all the same."""
    for name, node, ip in (("a", "a b", "::1"), ("b", "n", "x/../y?"), ("c", "n[1-9]", "192.0.2.7")):
        cluster.pods["unhang"].append(pod(name, node=node, ip=ip, labels={"app": "unhang-agent"}))
    standing = standing_of(api, account)
    await standing.refresh()
    assert (len(standing.reading.sightings), standing.trouble) == (3, None)
    assert [each.reason for each in standing.reading.missing[1:]] == [Reason.UNREADABLE] * 3


async def test_list_without_end_is_left(account: Path) -> None:
    """A server that always has another page costs the deadline at most."""
    page = json.dumps({"metadata": {"continue": "x"}, "items": [pod("a", node="n", ip="192.0.2.1")] * 500}).encode()
    with http_server(lambda path, headers: (200, page)) as base:
        source = KubernetesPods(AGENTS, agent_url=URL, environment={}, api=base, account=account)
        standing = PolledSource(source, deadline_seconds=0.5)
        await standing.refresh()
    assert standing.trouble is not None and standing.trouble.reason in (Reason.TIMED_OUT, Reason.REFUSED)


def test_collector_outside_of_a_cluster_must_be_told_where_it_is(tmp_path: Path) -> None:
    """In one sentence, at the start."""
    with pytest.raises(InvalidSettings, match="no API server"):
        KubernetesPods(AGENTS, agent_url=URL, environment={}, account=tmp_path)
    with pytest.raises(InvalidSettings, match="namespace"):
        KubernetesPods(AGENTS, agent_url=URL, environment={"KUBERNETES_SERVICE_HOST": "192.0.2.1"}, account=tmp_path)
