"""Pods that are watched: what changes is known at once, and whatever the server does, the agents stay known."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from collector.agents.directory import Directory
from collector.agents.kubernetes.kubernetes_source import KubernetesPods
from collector.agents.static_list import StaticInventory
from shared.missing import Reason
from tests.build.processes.waiting import until
from tests.build.services.broken_watches import BROKEN
from tests.build.services.discovery_servers import Cut
from tests.build.services.kubernetes_cluster import Cluster, pod

LABELS = {"app": "unhang-agent"}
NEVER = 3600.0
"""Seconds between two lists, where the test is about what a watch tells."""


def agent(number: int, **more: Any) -> Any:
    """The pod of an agent."""
    return pod(f"agent-{number}", node=f"node{number}", ip=f"192.0.2.{number}", labels=LABELS, **more)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """The files of a service account."""
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("unhang")
    return tmp_path


@pytest.fixture
def cluster() -> Cluster:
    """Two nodes, and a job of one pod."""
    return Cluster(unhang=[agent(1), agent(2)], team=[pod("w-0", node="node1", namespace="team")])


@asynccontextmanager
async def watching(
    cluster: Cluster,
    account: Path,
    *,
    period_seconds: float = NEVER,
    deadline_seconds: float = 5.0,
    watch_seconds: float = 240.0,
) -> AsyncIterator[Directory]:
    """A directory that learns of this cluster's agents and jobs, and has begun to watch."""
    with cluster.serving() as api:
        source = KubernetesPods(
            "app=unhang-agent",
            agent_url="http://{host}:8471",
            environment={},
            job_namespaces=("team",),
            api=api,
            account=account,
            period_seconds=period_seconds,
            deadline_seconds=deadline_seconds,
            watch_seconds=watch_seconds,
        )
        directory = Directory(
            StaticInventory([]), [source], period_seconds=period_seconds, deadline_seconds=deadline_seconds
        )
        async with directory.kept_fresh():
            await cluster.watched()
            yield directory


def known(directory: Directory) -> list[str]:
    """The agents' nodes."""
    return sorted(address.host for address in directory.addresses())


def job_pods(directory: Directory) -> dict[str, str]:
    """The jobs' pods and their phases."""
    return {each.name: each.phase for each in directory.pods.values()}


async def test_changes_are_known_without_another_list(cluster: Cluster, account: Path) -> None:
    """Pods that come, change and go, of agents and of jobs; each namespace was listed once."""
    async with watching(cluster, account) as directory:
        await cluster.watched(2)
        cluster.change("ADDED", agent(3))
        cluster.change("ADDED", pod("w-1", node="node2", namespace="team", phase="Pending"))
        await until(lambda: known(directory) == ["node1", "node2", "node3"])
        await until(lambda: job_pods(directory) == {"w-0": "Running", "w-1": "Pending"})
        cluster.change("MODIFIED", agent(1, phase="Pending", reason="ImagePullBackOff"))
        cluster.change("MODIFIED", pod("w-1", node="node2", namespace="team", phase="Failed", reason="Evicted"))
        cluster.change("DELETED", agent(2))
        await until(lambda: known(directory) == ["node3"])
        await until(lambda: job_pods(directory) == {"w-0": "Running", "w-1": "Failed"})
        assert "no agent on node node1" in str(directory.trouble)
        assert (cluster.lists, cluster.watches) == (2, 2)


async def test_pod_that_was_made_anew_under_its_name_is_another_one(cluster: Cluster, account: Path) -> None:
    """As StatefulSets do; the old one's end, which is told later, takes nothing from the new one."""
    old, new = (pod("w-0", node=node, namespace="team", uid=uid) for node, uid in (("node1", "uid-w-0"), ("n2", "b")))
    async with watching(cluster, account) as directory:
        cluster.change("ADDED", new)
        cluster.change("DELETED", old)
        await until(lambda: [each.uid for each in directory.pods.values()] == ["b"])


@pytest.mark.parametrize("status", [200, 410])
async def test_version_that_is_forgotten_has_the_pods_listed_again(
    cluster: Cluster, account: Path, status: int
) -> None:
    """Told within the watch, or instead of it; what vanished meanwhile is gone, and the watch goes on."""
    cluster.status_of_gone = status
    cluster.watch = until_cut
    async with watching(cluster, account) as directory:
        cluster.watch = Cluster.events
        cluster.pods["unhang"].pop()
        cluster.forget()
        cluster.change("ADDED", pod("cut", node="x", labels=LABELS))
        await until(lambda: known(directory) == ["node1"])
        cluster.change("ADDED", agent(4))
        await until(lambda: known(directory) == ["node1", "node4"])
        assert directory.standings[0].trouble is None


def until_cut(cluster: Cluster, asked: dict[str, str]) -> Iterator[bytes]:
    """The first change ends the watch, and is not told."""
    for told in cluster.events(asked):
        yield told[: len(told) // 2]
        raise Cut


async def test_watch_that_is_cut_within_a_change_is_taken_up_where_it_was(cluster: Cluster, account: Path) -> None:
    """Nothing is lost, and nothing is listed anew."""
    cluster.watch = until_cut
    async with watching(cluster, account) as directory:
        await cluster.watched(2)
        cluster.watch = Cluster.events
        cluster.change("ADDED", agent(3))
        await until(lambda: known(directory) == ["node1", "node2", "node3"])
        cluster.change("DELETED", agent(3))
        await until(lambda: known(directory) == ["node1", "node2"])
        assert cluster.lists == 2
        versions = [path for path in cluster.asked if "watch=1" in path and "labelSelector" in path]
        assert len(versions) == 2


async def test_watch_that_ends_in_its_time_is_taken_up(cluster: Cluster, account: Path) -> None:
    """Servers end each after the seconds asked for."""
    async with watching(cluster, account, watch_seconds=1.0) as directory:
        await cluster.watched(4)
        cluster.change("ADDED", agent(3))
        await until(lambda: known(directory) == ["node1", "node2", "node3"])


async def test_bookmark_moves_the_version_on(cluster: Cluster, account: Path) -> None:
    """A scope in which nothing happens must not be listed anew because the server forgets its old version."""
    async with watching(cluster, account, watch_seconds=2.0) as directory:
        await cluster.watched(2)
        cluster.bookmark()
        cluster.oldest = cluster.version
        await cluster.watched(5)
        cluster.change("ADDED", agent(3))
        await until(lambda: known(directory) == ["node1", "node2", "node3"])
        assert cluster.lists == 2


@pytest.mark.parametrize("name", BROKEN)
async def test_where_no_watch_is_to_be_had_the_pods_are_listed(cluster: Cluster, account: Path, name: str) -> None:
    """Every `period_seconds`, as without the right to watch; what is known stands, and no server is run down."""
    cluster.watch = BROKEN[name]
    async with watching(cluster, account, period_seconds=0.2, deadline_seconds=0.5, watch_seconds=1.0) as directory:
        await until(lambda: known(directory) == ["node1", "node2"])
        cluster.change("ADDED", agent(3))
        await until(lambda: known(directory) == ["node1", "node2", "node3"])
        began, before = time.monotonic(), cluster.watches
        await asyncio.sleep(0.5)
        assert cluster.watches - before <= 4 + 20 * (time.monotonic() - began)
        cluster.watch = Cluster.events
        watches, lists = cluster.watches, cluster.lists
        await cluster.watched(watches + 2)
        cluster.change("DELETED", agent(3))
        await until(lambda: known(directory) == ["node1", "node2"])
        assert lists <= cluster.lists


async def test_server_that_takes_connections_and_answers_nothing(cluster: Cluster, account: Path) -> None:
    """It is told within the deadline; what was known stands; it is watched again once it answers."""
    async with watching(cluster, account, period_seconds=0.1, deadline_seconds=0.4, watch_seconds=1.0) as directory:
        await until(lambda: known(directory) == ["node1", "node2"])
        cluster.answering.clear()
        await until(lambda: directory.standings[0].trouble is not None)
        assert known(directory) == ["node1", "node2"]
        assert directory.standings[0].trouble.reason is Reason.TIMED_OUT  # type: ignore[union-attr]
        cluster.answering.set()
        cluster.change("ADDED", agent(3))
        await until(lambda: known(directory) == ["node1", "node2", "node3"])
        await until(lambda: directory.standings[0].trouble is None)


async def test_token_is_read_again_for_each_watch(cluster: Cluster, account: Path) -> None:
    """One that the server takes no more is told, and the agents stay; with the new one all goes on."""
    async with watching(cluster, account, period_seconds=0.2, watch_seconds=1.0) as directory:
        cluster.token = "second"
        await until(lambda: directory.standings[0].trouble is not None)
        assert directory.standings[0].trouble.reason is Reason.NOT_PERMITTED  # type: ignore[union-attr]
        assert known(directory) == ["node1", "node2"]
        (account / "token").write_text("second")
        cluster.change("ADDED", agent(3))
        await until(lambda: known(directory) == ["node1", "node2", "node3"])


async def test_namespace_of_jobs_that_is_forbidden_and_then_is_not(cluster: Cluster, account: Path) -> None:
    """It costs the agents nothing, is told, and is watched once it may be."""
    cluster.forbidden.add("team")
    async with watching(cluster, account, period_seconds=0.2) as directory:
        cluster.change("ADDED", agent(3))
        await until(lambda: known(directory) == ["node1", "node2", "node3"])
        assert [each.reason for each in directory.standings[0].reading.missing] == [Reason.NOT_PERMITTED]
        cluster.forbidden.clear()
        await until(lambda: job_pods(directory) == {"w-0": "Running"} and directory.trouble is None)
        cluster.change("DELETED", cluster.pods["team"][0])
        await until(lambda: job_pods(directory) == {})


async def test_list_that_takes_longer_than_the_deadline_comes_later(cluster: Cluster, account: Path) -> None:
    """A cluster of many pods must not cost the agents; each page has the deadline, the whole has none."""
    cluster.pods["team"] = [pod(f"w-{at}", node="node1", namespace="team") for at in range(40)]
    cluster.pages_take_seconds = 0.2
    async with watching(cluster, account, deadline_seconds=3.0) as directory:
        await until(lambda: known(directory) == ["node1", "node2"])
        await until(lambda: len(directory.pods) == 40)
        assert directory.trouble is None


async def test_end_leaves_nothing_behind(cluster: Cluster, account: Path) -> None:
    """No task, however the watch stands."""
    async with watching(cluster, account):
        pass
    left = {task.get_name() for task in asyncio.all_tasks()} - {asyncio.current_task().get_name()}  # type: ignore[union-attr]
    assert not [name for name in left if "kubernetes" in name or "agents from" in name]
