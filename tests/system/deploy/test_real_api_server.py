"""Discovery in Kubernetes against a real API server: its lists, watches, rights, and its restarts.

KUBE_APISERVER names a kube-apiserver that somebody has; etcd is Debian's etcd-server.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.agents.kubernetes.kubernetes_source import KubernetesPods
from collector.agents.polling import PolledSource
from collector.concurrency.tasks import end
from collector.gather.failures import NoAnswer
from shared.missing import Reason
from tests.build.processes.waiting import until
from tests.build.services.api_server import ApiServer, api_server
from tests.system.deploy.kubernetes import COMPONENTS, KUBERNETES, OVERLAYS, overlay, with_components
from tests.system.deploy.kustomizations import build
from tests.system.deploy.test_kubernetes import workload

pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(not os.environ.get("KUBE_APISERVER"), reason="KUBE_APISERVER names no kube-apiserver"),
]
AGENTS = "app.kubernetes.io/name=unhang-agent"
PAGE, SECONDS = 500, 60.0
CONTAINER = {"containers": [{"name": "pytorch", "image": "x"}]}
JOB_NAMES = KUBERNETES / "components" / "job-names" / "rights.yaml"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One that has taken all that our manifests hold."""
    with api_server(Path(os.environ["KUBE_APISERVER"]), tmp_path_factory.mktemp("api")) as made:
        for manifest in (
            *overlay("cluster"),
            *yaml.safe_load_all(JOB_NAMES.read_text()),
            namespace("team-a"),
            namespace("team-b"),
        ):
            apply(made, manifest)
        yield made


def path_of(manifest: dict[str, Any]) -> str:
    """Where the API keeps a manifest's thing."""
    version, kind = manifest["apiVersion"], manifest["kind"].lower()
    group = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    within = manifest["metadata"].get("namespace")
    return f"{group}/{f'namespaces/{within}/' if within else ''}{plural}/{manifest['metadata']['name']}"


def apply(server: ApiServer, manifest: dict[str, Any]) -> None:
    """As `kubectl apply --server-side --validate=strict` does."""
    path = f"{path_of(manifest)}?fieldManager=tests&fieldValidation=Strict&force=true"
    server.ask("PATCH", path, manifest, "application/apply-patch+yaml")


def namespace(name: str) -> dict[str, Any]:
    """A namespace without labels."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def pod(name: str, within: str, node: str, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    """A pod as a controller would make it, and the scheduler have placed it."""
    meta = {"name": name, "namespace": within, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**spec, "nodeName": node}}


def run(server: ApiServer, made: dict[str, Any], address: str) -> None:
    """Say what kubelet would say of a pod that runs."""
    status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    server.ask("PATCH", f"{path_of(made)}/status", status, "application/merge-patch+json")


@asynccontextmanager
async def followed(source: KubernetesPods) -> AsyncIterator[PolledSource]:
    """A source as a collector keeps it."""
    polled = PolledSource(source, deadline_seconds=SECONDS)
    await polled.refresh()
    following = asyncio.create_task(polled.keep_fresh(period_seconds=1.0))
    try:
        yield polled
    finally:
        await end(following)


def source(server: ApiServer, account: Path, *job_namespaces: str) -> KubernetesPods:
    """The collector's source, with an account's rights."""
    return KubernetesPods(
        AGENTS,
        agent_url="http://{host}:8471",
        environment={},
        job_namespaces=job_namespaces,
        api=server.url,
        account=account,
        period_seconds=1.0,
        deadline_seconds=20.0,
    )


def names(polled: PolledSource) -> set[str]:
    """The pods of jobs that are known."""
    return {pod.name for pod in polled.reading.pods}


@pytest.mark.parametrize("folder", [*OVERLAYS, *COMPONENTS], ids=lambda folder: folder.name)
def test_it_takes_our_manifests(server: ApiServer, folder: Path, tmp_path: Path) -> None:
    """With no field that it does not know, and again, as at an upgrade; custom resources need their definitions."""
    whole = folder if folder in OVERLAYS else with_components(KUBERNETES / "overlays" / "cluster", (folder,), tmp_path)
    for _ in range(2):
        for manifest in build(whole):
            if not manifest["apiVersion"].startswith("monitoring.coreos.com/"):
                apply(server, manifest)


async def test_agents_are_followed_by_the_role_that_we_grant(server: ApiServer, tmp_path: Path) -> None:
    """Pods of the DaemonSet, which the namespace admits: they come, run, end; a server that restarts loses none."""
    template = workload("cluster", "agent")["spec"]["template"]
    account = server.account("unhang", "unhang-collector", tmp_path / "account")
    agents = [
        pod(f"agent-{at}", "unhang", f"node{at}", template["metadata"]["labels"], template["spec"]) for at in range(3)
    ]
    async with followed(source(server, account)) as polled:
        for at, agent in enumerate(agents):
            server.ask("POST", path_of(agent).rpartition("/")[0], agent)
            run(server, agent, f"10.1.0.{at + 1}")
        await until(lambda: len(polled.reading.sightings) == 3)
        assert {each.address.host for each in polled.reading.sightings} == {"node0", "node1", "node2"}
        server.ask("DELETE", f"{path_of(agents[0])}?gracePeriodSeconds=0")
        await until(lambda: len(polled.reading.sightings) == 2)


async def test_pods_of_jobs_by_pages_and_over_a_restart(server: ApiServer, tmp_path: Path) -> None:
    """More than a page, in all namespaces; what happens while the server is away is seen once it is back."""
    account = server.account("unhang", "unhang-collector", tmp_path / "account")
    workers = [pod(f"worker-{at}", "team-a", "node1", {"job-name": "llama"}, CONTAINER) for at in range(PAGE + 1)]
    for worker in workers:
        server.ask("POST", path_of(worker).rpartition("/")[0], worker)
    late = pod("late", "team-b", "node2", {"ray.io/cluster": "rl"}, CONTAINER)
    async with followed(source(server, account, "*")) as polled:
        first = polled.reading.pods
        assert len(first) > PAGE and {(each.namespace, each.job) for each in first} >= {("team-a", "llama")}
        await asyncio.to_thread(server.stop)
        await until(lambda: polled.trouble is not None)
        assert polled.reading.pods == first
        await asyncio.to_thread(server.start)
        server.ask("DELETE", f"{path_of(workers[0])}?gracePeriodSeconds=0")
        server.ask("POST", path_of(late).rpartition("/")[0], late)
        await until(lambda: {"late"} <= names(polled) and "worker-0" not in names(polled))
        assert polled.trouble is None and not polled.reading.missing


async def test_what_the_account_may_not_see_is_said(server: ApiServer, tmp_path: Path) -> None:
    """An account without rights, and a token that the server did not give."""
    server.ask("POST", "/api/v1/namespaces/team-b/serviceaccounts", {"metadata": {"name": "other"}})
    account = server.account("team-b", "other", tmp_path / "account")
    for token, status in ((None, 403), ("no-token", 401)):
        if token is not None:
            (account / "token").write_text(token)
        with pytest.raises(NoAnswer, match=f"HTTP {status}") as refused:
            await source(server, account).read()
        assert refused.value.reason is Reason.NOT_PERMITTED
