"""Whatever way a silent node is known, a diagnosis names it, with the ranks that nobody reports."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.answer.diagnosis import Diagnosis
from tests.build.agents.fake_agents import FakeAgent, case_ranks
from tests.build.services.discovery_servers import Zone, http_server, name_server
from tests.build.services.kubernetes_cluster import Cluster, pod
from tests.unit.collector.agents.test_directory import collector

JOB = "slurm-77"
WAYS = (
    "agents",
    "agents_file",
    "file_sd",
    "http_sd",
    "dns addresses",
    "dns services",
    "registered",
    "slurm",
    "kubernetes",
)


@pytest.fixture
def silent() -> Iterator[int]:
    """A port on loopback that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def settings_of(way: str, tmp_path: Path, port: int, patch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What has a collector know a node with that port by that way, and by no other."""
    place, host = f"127.0.0.1:{port}", f"http://{{host}}:{port}"
    groups = json.dumps([{"targets": [place]}]).encode()
    with ExitStack() as stack:
        match way:
            case "agents":
                yield {"agents": f"node1,{place}"}
            case "agents_file":
                (tmp_path / "agents").write_text(place)
                yield {"agents_file": tmp_path / "agents"}
            case "file_sd":
                (tmp_path / "agents.json").write_bytes(groups)
                yield {"file_sd": str(tmp_path / "agents.json")}
            case "http_sd":
                yield {"http_sd": stack.enter_context(http_server(lambda path, headers: (200, groups)))}
            case "dns addresses":
                zone = Zone({("agents.test", "A"): ("127.0.0.1",)})
                yield {"dns": "agents.test", "dns_server": stack.enter_context(name_server(zone)), "agent_url": host}
            case "dns services":
                zone = Zone({("_unhang._tcp.test", "SRV"): (f"0 0 {port} localhost.",)})
                yield {"dns": "_unhang._tcp.test", "dns_server": stack.enter_context(name_server(zone))}
            case "registered":
                yield {"registration_seconds": 60}
            case "slurm":
                (tmp_path / "squeue").write_text("#!/bin/sh\necho '77|node1,127.77.0.7'\n")
                (tmp_path / "squeue").chmod(0o755)
                patch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
                yield {"slurm": True, "agents": ""}
            case "kubernetes":
                (tmp_path / "token").write_text("first")
                (tmp_path / "namespace").write_text("unhang")
                cluster = Cluster(unhang=[pod("a", node="gpu-9", ip="127.0.0.1", labels={"app": "unhang"})])
                api = {"kubernetes_api": stack.enter_context(cluster.serving()), "kubernetes_account": tmp_path}
                yield {"kubernetes": "app=unhang", "agent_url": host, **api}


@asynccontextmanager
async def knowing(way: str, tmp_path: Path, port: int, patch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """A collector that knows node1, which answers, and the silent node."""
    ranks = tuple(
        rank.model_copy(update={"identity": rank.identity.model_copy(update={"job": JOB})})
        for rank in case_ranks("missing_rank2", (0, 1), host="node1")
    )
    with settings_of(way, tmp_path, port, patch) as ways:
        async with collector(tmp_path, FakeAgent("node1", ranks), **{"agents": "node1", **ways}) as (client, _):
            if way == "registered":
                await client.put("/v1/agents/node7", json={"url": f"http://127.0.0.1:{port}"})
            yield client


NAMED = {"dns services": "localhost", "registered": "node7", "slurm": "127.77.0.7", "kubernetes": "gpu-9"}
"""What each way calls the node; the others know its address alone."""


@pytest.mark.parametrize("way", WAYS)
async def test_silent_node_is_named_with_the_ranks_that_nobody_reports(
    way: str, tmp_path: Path, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks 2 and 3 are missing, by WORLD_SIZE and by what the others wait for; one node is known and gives nothing."""
    async with knowing(way, tmp_path, silent, monkeypatch) as client:
        for _ in range(1000):
            if (await client.get("/healthz")).json()["agents"] == 2:
                break
            await asyncio.sleep(0.05)
        answer = await client.post(f"/v1/jobs/{JOB}/diagnoses", params={"wait": 30})
    diagnosis = Diagnosis.model_validate_json(answer.content)
    finding = diagnosis.findings[0]
    named = NAMED.get(way, "127.0.0.1")
    assert (finding.kind, finding.culprit_ranks) == ("rank_unreachable", (2, 3))
    assert {culprit.host for culprit in finding.culprits} == {named}
    assert finding.certainty != "proven"
    assert [(gap.ranks, gap.host) for gap in diagnosis.coverage.missing if gap.missing.source == "rank"] == [
        ("2-3", named)
    ]
