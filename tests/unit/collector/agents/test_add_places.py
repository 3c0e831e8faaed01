"""What Kubernetes and Slurm know of a job, in the diagnosis: names of pods, and nodes that nobody could ask."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.files.diagnose_files import diagnose_directory
from shared.answer.diagnosis import Diagnosis, Finding, PodEvidence
from shared.missing import Reason
from shared.wire.snapshot import Process, RankSnapshot
from tests.build.agents.fake_agents import JOB, FakeAgent, case_ranks
from tests.build.services.kubernetes_cluster import Cluster, pod
from tests.unit.collector.agents.test_directory import collector

LABELS = {"training.kubeflow.org/job-name": "llama"}
AGENT = {"app": "unhang-agent"}


def in_pod(ranks: Sequence[RankSnapshot], uid: str) -> tuple[RankSnapshot, ...]:
    """These ranks, in the container `train` of a pod; process 1000 + N is 7 + N within."""
    return tuple(
        rank.model_copy(
            update={
                "identity": rank.identity.model_copy(
                    update={"pod_uid": uid, "container_id": "abc", "container_pid": 7 + rank.identity.rank}
                )
            }
        )
        for rank in ranks
    )


def worker(number: int, **more: Any) -> Any:
    """A pod of the job; on node `number + 1`, if nothing else is said."""
    container = {"name": "train", "containerID": "containerd://abc", "restartCount": more.pop("restarts", 0)}
    node = more.pop("node", f"node{number + 1}")
    return pod(f"w-{number}", node=node, ip=f"192.0.2.10{number}", labels=LABELS, containerStatuses=[container], **more)


def agent(number: int) -> Any:
    """The pod of an agent."""
    return pod(f"agent-{number}", node=f"node{number}", ip=f"192.0.2.{number}", labels=AGENT)


@asynccontextmanager
async def on_kubernetes(
    tmp_path: Path, cluster: Cluster, *agents: FakeAgent, names: str = "node[1-2]"
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a collector that asks these agents and this cluster."""
    (tmp_path / "token").write_text("first")
    (tmp_path / "namespace").write_text("unhang")
    with cluster.serving() as api:
        ways = {
            "agents": names,
            "kubernetes": "app=unhang-agent",
            "kubernetes_api": api,
            "kubernetes_account": tmp_path,
            "kubernetes_job_namespaces": "team",
        }
        async with collector(tmp_path, *agents, **ways) as (client, _):
            yield client


async def diagnosed(client: httpx.AsyncClient, job: str = JOB) -> tuple[Diagnosis, str]:
    """The diagnosis, and how a terminal shows it."""
    answer = await client.post(f"/v1/jobs/{job}/diagnoses", params={"wait": 30})
    shown = await client.get(answer.headers["location"], headers={"Accept": "text/plain"})
    return Diagnosis.model_validate_json(answer.content), shown.text


def commands(finding: Finding) -> list[str]:
    """What may be pasted."""
    return [step.command for step in finding.next_steps if step.command is not None]


def whole_job(case: str = "missing_rank2") -> tuple[FakeAgent, FakeAgent]:
    """Two nodes with two ranks each, in a pod each."""
    return (
        FakeAgent("node1", in_pod(case_ranks(case, (0, 1), host="node1"), "uid-w-0")),
        FakeAgent("node2", in_pod(case_ranks(case, (2, 3), host="node2"), "uid-w-1")),
    )


async def test_culprit_is_named_by_its_pod(tmp_path: Path) -> None:
    """In JSON and text, with what is wrong with the pod, and commands that use its names and the right process ids."""
    cluster = Cluster(unhang=[agent(1), agent(2)], team=[worker(0), worker(1, restarts=2)])
    async with on_kubernetes(tmp_path, cluster, *whole_job()) as client:
        diagnosis, text = await diagnosed(client)
        kept = (await client.get(f"/v1/diagnoses/{diagnosis.id}")).json()
    finding = diagnosis.findings[0]
    (culprit,) = finding.culprits
    assert (culprit.rank, culprit.host, culprit.pod, culprit.container) == (2, "node2", "team/w-1", "train")
    assert "rank 2  host node2, pod team/w-1, container train, pid 1002" in text
    assert kept["findings"][0]["culprits"][0]["pod"] == "team/w-1"
    assert [command for command in commands(finding) if command.startswith("kubectl")] == [
        "kubectl -n unhang exec agent-2 -- py-spy dump --native --pid 1002",
        "kubectl -n team describe pod w-1",
        "kubectl -n team logs w-1 -c train --previous --tail=100",
    ]
    assert all(command in text for command in commands(finding) if command.startswith("kubectl"))
    assert "$ unhang sequences --collector http://" in text


async def test_what_is_wrong_with_the_culprits_pod_is_evidence(tmp_path: Path) -> None:
    """A container that was killed for want of memory before, a node that is under pressure."""
    broken = worker(1, restarts=1)
    broken["status"]["containerStatuses"][0]["lastState"] = {"terminated": {"reason": "OOMKilled"}}
    cluster = Cluster(unhang=[], team=[worker(0), broken])
    async with on_kubernetes(tmp_path, cluster, *whole_job()) as client:
        diagnosis, text = await diagnosed(client)
    (told,) = (each for each in diagnosis.findings[0].evidence if isinstance(each, PodEvidence))
    assert told.text == "rank 2 runs in pod team/w-1, container train: Running, OOMKilled, restarted 1 time"
    assert (told.ranks, told.pod, told.reason, told.restarts, told.host) == ("2", "team/w-1", "OOMKilled", 1, "node2")
    assert "OOMKilled" in text


async def test_stopped_rank_is_woken_by_the_id_that_its_container_knows(tmp_path: Path) -> None:
    """Not by that of the node, which is another process there."""
    one, two = whole_job()
    stopped = Process(pid=1002, state="T", started_at=1.0)
    for node in (one, two):
        node.ranks = tuple(rank.model_copy(update={"looked_at_ns": 10**9}) for rank in node.ranks)
    two.ranks = (two.ranks[0].model_copy(update={"process": stopped}), two.ranks[1])
    cluster = Cluster(unhang=[], team=[worker(0), worker(1)])
    async with on_kubernetes(tmp_path, cluster, one, two) as client:
        diagnosis, _ = await diagnosed(client)
    assert diagnosis.findings[0].kind == "rank_stopped"
    assert "kubectl -n team exec w-1 -c train -- sh -c 'kill -CONT 9'" in commands(diagnosis.findings[0])


async def test_pod_that_was_evicted_is_told_where_its_ranks_are_missing(tmp_path: Path) -> None:
    """Which ranks were in it is not known, and not guessed. A silent node of somebody else's is no concern."""
    one, _ = whole_job()
    one.ranks = tuple(rank.model_copy(update={"looked_at_ns": time.time_ns()}) for rank in one.ranks)
    idle = FakeAgent("node2", ())
    lost = worker(1, phase="Failed", reason="Evicted")
    cluster = Cluster(unhang=[], team=[worker(0), lost])
    async with on_kubernetes(tmp_path, cluster, one, idle, names="node[1-2,9]") as client:
        diagnosis, text = await diagnosed(client)
    finding = diagnosis.findings[0]
    assert (finding.kind, finding.culprit_ranks, finding.certainty) == ("rank_missing", (2, 3), "supported")
    assert [culprit.pod for culprit in finding.culprits] == [None, None]
    told = [each.text for each in finding.evidence if isinstance(each, PodEvidence)]
    assert told == ["no rank is seen in pod team/w-1 of this job on node2: Failed, Evicted"]
    assert "kubectl -n team describe pod w-1" in commands(finding)
    assert "ranks 2-3 have no process on any node of the job" in " ".join(text.split())
    assert "node9" not in diagnosis.model_dump_json()
    assert "Evicted" in text


async def test_node_of_the_job_where_no_agent_is_known_is_told(tmp_path: Path) -> None:
    """Kubernetes runs a pod of the job on node2, where the DaemonSet has no pod: its ranks are out of reach there."""
    one, _ = whole_job()
    cluster = Cluster(unhang=[agent(1)], team=[worker(0), worker(1)])
    async with on_kubernetes(tmp_path, cluster, one, names="node1") as client:
        diagnosis, text = await diagnosed(client)
    finding = diagnosis.findings[0]
    assert (finding.kind, finding.culprit_ranks) == ("rank_unreachable", (2, 3))
    assert {culprit.host for culprit in finding.culprits} == {"node2"}
    (gap,) = (each for each in diagnosis.coverage.missing if each.missing.source == "agents")
    assert (gap.host, gap.missing.reason) == ("node2", Reason.NOT_FOUND)
    assert "no agent is known on this node, where pod team/w-1 of the job runs" in gap.missing.detail
    assert "node2" in text and "no agent is known" in text


@pytest.mark.parametrize("lost", [False, True], ids=["seen", "out of reach"])
async def test_bundle_is_judged_with_the_same_names(tmp_path: Path, lost: bool) -> None:
    """Read back anywhere, with no cluster in sight: pods, nodes without an agent, evidence and commands."""
    one, two = whole_job()
    cluster = Cluster(unhang=[agent(1)], team=[worker(0, restarts=1, reason="OOMKilled"), worker(1)])
    nodes, names = ((one,), "node1") if lost else ((one, two), "node[1-2]")
    async with on_kubernetes(tmp_path, cluster, *nodes, names=names) as client:
        diagnosis, _ = await diagnosed(client)
        bundle = await client.get(f"/v1/diagnoses/{diagnosis.id}/bundle")
    (tmp_path / "read").mkdir()
    (tmp_path / "read" / "bundle").write_bytes(bundle.content)
    again = diagnose_directory(tmp_path / "read").diagnosis
    assert "team/w-" in again.model_dump_json()
    assert (again.findings, again.next_steps) == (diagnosis.findings, diagnosis.next_steps)
    assert again.coverage == diagnosis.coverage


async def test_without_kubernetes_nothing_is_added(tmp_path: Path) -> None:
    """No field, no step."""
    async with collector(tmp_path, *whole_job(), agents="node[1-2]") as (client, _):
        diagnosis, _ = await diagnosed(client)
    assert diagnosis.findings[0].culprits[0].pod is None
    assert "kubectl" not in diagnosis.model_dump_json()


def slurm_with(tmp_path: Path, patch: pytest.MonkeyPatch, *lines: str) -> None:
    """Put a squeue that says this on the PATH."""
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    squeue.chmod(0o755)
    patch.setenv("PATH", f"{squeue.parent}:/usr/bin:/bin")


def of_slurm(ranks: Sequence[RankSnapshot], job: str) -> tuple[RankSnapshot, ...]:
    """These ranks, as ranks of a job of Slurm's."""
    return tuple(rank.model_copy(update={"identity": rank.identity.model_copy(update={"job": job})}) for rank in ranks)


async def test_node_that_slurm_gave_the_job_and_that_has_no_rank_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent answers: the ranks were never started there, or have ended. Nodes of other jobs are not named."""
    slurm_with(tmp_path, monkeypatch, "77|node[1,7]", "78|node8")
    ranks = of_slurm(case_ranks("missing_rank2", (0, 1), host="node1"), "slurm-77")
    agents = (FakeAgent("node1", ranks), FakeAgent("node7", ()), FakeAgent("node8", ()))
    async with collector(tmp_path, *agents, slurm=True) as (client, _):
        diagnosis, text = await diagnosed(client, "slurm-77")
    finding = diagnosis.findings[0]
    assert (finding.kind, finding.culprit_ranks) == ("rank_missing", (2, 3))
    said = "Slurm also allocated node7 to the job; the agents there answer and see no rank of it"
    assert said in [each.text for each in finding.evidence]
    assert said in " ".join(text.split())
    assert "node8" not in diagnosis.model_dump_json()
