"""Closer looks through the collector: a real agent, asked by a real application, in one process."""

from pathlib import Path

import httpx
import pytest

from agent.app import create_app as create_agent
from agent.settings import AgentSettings
from collector.app import create_app
from tests.build.processes.processes import HERE, SLEEP, rank_environment, running
from tests.unit.collector.test_app import settings

pytestmark = [pytest.mark.ptrace, pytest.mark.slow]

NUMBER, PORT = 31_007, 29_449


@pytest.mark.needs("strace")
@pytest.mark.parametrize("allowed", [True, False])
async def test_agent_decides(tmp_path: Path, allowed: bool) -> None:
    """The rank's agent is found and asked; what it does not do is told, and native stacks need no setting."""
    agent = create_agent(AgentSettings(host_name="node1", debuggers=allowed, only_ranks=str(NUMBER), beat_seconds=0))
    mounts = {"http://node1:8471": httpx.ASGITransport(agent)}
    app = create_app(settings(tmp_path, agents="node1"), mounts=mounts)
    job = f"/v1/jobs/{HERE}:{PORT}"
    with running(SLEEP, env=rank_environment(NUMBER, port=PORT, world_size=NUMBER + 1)):
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector") as client,
        ):
            look = await client.get(f"{job}/ranks/{NUMBER}/deep", params={"how": "syscalls", "seconds": 0.2})
            nobody = await client.get(f"{job}/ranks/0/deep", params={"how": "gdb"})
            native = await client.get(f"{job}/stacks", params={"native": True})
    assert (look.status_code, nobody.status_code) == (200, 404)
    answer = look.json()
    assert (answer["rank"], answer["host"]) == (NUMBER, "node1")
    assert (answer["syscalls"] is not None, answer["missing"] is None) == (allowed, allowed), answer
    assert ".so" in native.text


@pytest.mark.parametrize("silent", [False, True])
async def test_rank_that_nobody_sees(tmp_path: Path, silent: bool) -> None:
    """Where an agent has not answered, it may have the rank: that is said, and not that there is none."""
    agent = create_agent(AgentSettings(host_name="node1", only_ranks=str(NUMBER), beat_seconds=0))
    mounts = {"http://node1:8471": httpx.ASGITransport(agent)}
    agents = "node1,localhost:1" if silent else "node1"
    app = create_app(settings(tmp_path, agents=agents), mounts=mounts)
    with running(SLEEP, env=rank_environment(NUMBER, port=PORT, world_size=NUMBER + 1)):
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector") as client,
        ):
            path = f"/v1/jobs/{HERE}:{PORT}/ranks/0/deep"
            answer = await client.get(path, params={"how": "gdb"})
    told = answer.json()
    assert f"sees rank 0 of the job '{HERE}:{PORT}'" in told["detail"]
    assert (answer.status_code == 404) is not silent
    assert ("did not answer" in told["advice"]) is silent
