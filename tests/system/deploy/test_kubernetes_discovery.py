"""A collector with the variables of the manifests finds the agents of the manifests, and asks for nothing else."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from collector.app import create_app
from collector.settings import read_settings
from tests.build.services.kubernetes_cluster import Cluster, pod
from tests.system.deploy.kubernetes import OVERLAYS, one, overlay
from tests.system.deploy.kustomizations import Manifest
from tests.system.deploy.test_kubernetes import main_container, workload

SECRET = "a-token-of-the-tests"
_TRIES = 1000


def variables_here(container: Manifest, folder: Path) -> dict[str, str]:
    """Return the container's variables, with its files in our folder and what is secret made up."""
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    for name, value in given.items():
        if value.startswith("/"):
            given[name] = str(folder / Path(value).name)
    return given | {
        "UNHANG_COLLECTOR_STORE": str(folder / "store.sqlite3"),
        "UNHANG_COLLECTOR_DISCOVERY_SECONDS": "0.1",
    }


async def agents_known(app: FastAPI) -> int:
    """Return how many agents the collector knows, once it knows any."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector") as asking:
        for _ in range(_TRIES):
            known: int = (await asking.get("/healthz")).json()["agents"]
            if known:
                return known
            await asyncio.sleep(0.02)
    return 0


@pytest.mark.parametrize("name", [folder.name for folder in OVERLAYS])
async def test_collector_finds_the_agents(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods with the DaemonSet's labels in the overlay's namespace, by the two verbs that the Role grants."""
    daemon = workload(name, "agent")
    namespace, labels = daemon["metadata"]["namespace"], daemon["spec"]["template"]["metadata"]["labels"]
    agents = [pod(f"agent-{at}", node=f"node{at}", ip=f"10.0.0.{at}", labels=labels) for at in (1, 2, 3)]
    other = pod("web", node="node1", ip="10.0.0.9", labels={"app.kubernetes.io/name": "web"})
    cluster = Cluster(
        **{namespace: [*agents, other], "elsewhere": [pod("agent-4", node="n", ip="10.1.0.1", labels=labels)]}
    )
    cluster.token = SECRET
    for file in ("token", "tokens", "namespace"):
        (tmp_path / file).write_text(namespace if file == "namespace" else SECRET, encoding="ascii")
        (tmp_path / file).chmod(0o600)
    for variable, value in variables_here(main_container(name, "collector"), tmp_path).items():
        monkeypatch.setenv(variable, value)
    with cluster.serving() as api:
        settings = read_settings({"kubernetes_api": api, "kubernetes_account": tmp_path})
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            found = await agents_known(app)
            await cluster.watched()
    assert found == len(agents)
    role = one(overlay(name), "Role", "unhang-collector")
    assert [set(rule["verbs"]) for rule in role["rules"]] == [cluster.verbs]
    assert {urlsplit(path).path for path in cluster.asked} == {f"/api/v1/namespaces/{namespace}/pods"}
    assert role["metadata"]["namespace"] == namespace
