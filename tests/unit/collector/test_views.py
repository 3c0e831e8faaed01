"""What the API shows of a job beside verdicts: stacks, sequences, descriptors, logs; now, and of a kept diagnosis."""

from pathlib import Path

import httpx
import pytest

from collector.gather import plan as gathering
from shared.wire.log_events import LogFile, Logs
from shared.wire.snapshot import Fds
from tests.build.agents.fake_agents import JOB, FakeAgent, case_ranks, two_nodes
from tests.unit.collector import test_app
from tests.unit.collector.test_app import client_of, diagnose, settings

client = test_app.client


async def test_stacks_in_every_format(client: httpx.AsyncClient) -> None:
    """Merged stacks as tree, classes, folded lines and speedscope."""
    url = f"/v1/jobs/{JOB}/stacks"
    tree = (await client.get(url)).json()
    assert tree["tree"][0]["ranks"] == "0-3"
    assert len(tree["tree"][0]["children"]) == 4
    classes = (await client.get(url, params={"format": "classes", "ranks": "1-2"})).json()
    assert [each["ranks"] for each in classes["classes"]] == ["1", "2"]
    folded = (await client.get(url, params={"format": "folded"})).text
    assert len(folded.splitlines()) == 4
    assert all(line.endswith(" 1") for line in folded.splitlines())
    speedscope = (await client.get(url, params={"format": "speedscope"})).json()
    assert speedscope["profiles"][0]["weights"] == [1, 1, 1, 1]
    text = await client.get(url, headers={"Accept": "text/plain"})
    assert "wait_for_data" in text.text


async def test_views_of_a_diagnosis_do_not_look_again(tmp_path: Path) -> None:
    """With `diagnosis`, what was seen then is shown, also when the job is long gone."""
    nodes = two_nodes()
    async with client_of(settings(tmp_path), *nodes) as client:
        made = await diagnose(client)
        looks = nodes[0].looks
        nodes[0].ranks = nodes[1].ranks = ()
        view = (await client.get(f"/v1/jobs/{JOB}/sequences", params={"diagnosis": made.id})).json()
        wrong = await client.get("/v1/jobs/other/sequences", params={"diagnosis": made.id})
    assert view["groups"][0]["behind"] == "2"
    assert nodes[0].looks == looks
    assert wrong.status_code == 404


async def test_fds_and_logs(tmp_path: Path) -> None:
    """Descriptors rank by rank; logs merged, each line with `[host:rank]`; who has none is named."""
    ranks = case_ranks("missing_rank2", (0, 1), host="node1")
    logs = Logs(files=(LogFile(path="/tmp/out", lines=("one", "two", "three")),))
    full = ranks[0].model_copy(update={"fds": Fds(total=7, by_kind={"socket": 7}), "logs": logs})
    async with client_of(settings(tmp_path, agents="node1"), FakeAgent("node1", [full, ranks[1]])) as client:
        fds = (await client.get(f"/v1/jobs/{JOB}/fds")).json()
        merged = (await client.get(f"/v1/jobs/{JOB}/logs", params={"lines": 2})).json()
        text = await client.get(f"/v1/jobs/{JOB}/logs", headers={"Accept": "text/plain"})
    assert [(each["rank"], each["fds"]["total"]) for each in fds["ranks"]] == [(0, 7)]
    assert [gap["rank"] for gap in fds["gaps"]] == [1]
    assert [line["text"] for line in merged["lines"]] == ["two", "three"]
    assert text.text == "[node1:0] one\n[node1:0] two\n[node1:0] three\n"


async def test_views_of_a_job_on_many_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A survey shows where all ranks are; what it leaves out is shown of those that are asked for."""
    nodes = two_nodes()
    async with client_of(settings(tmp_path, survey_above=1), *nodes) as client:
        tree = (await client.get(f"/v1/jobs/{JOB}/stacks", params={"format": "classes"})).json()
        sequences = (await client.get(f"/v1/jobs/{JOB}/sequences")).json()
        assert sorted(stack["ranks"] for stack in tree["classes"]) == ["0", "1", "2", "3"]
        assert sequences["groups"]
        assert all("survey" in asked for node in nodes for asked in node.asked)
        monkeypatch.setattr(gathering, "MOST_WHOLE_LOOKS", 3)
        refused = await client.get(f"/v1/jobs/{JOB}/fds")
        assert refused.status_code == 400
        assert "ranks=0-7" in refused.json()["advice"]
        logs = (await client.get(f"/v1/jobs/{JOB}/logs", params={"ranks": "2"})).json()
        assert [asked["pid"] for asked in nodes[1].asked if "pid" in asked] == [[1002]]
        assert not [asked for asked in nodes[0].asked if "pid" in asked]
        assert [gap["rank"] for gap in logs["gaps"]] == [2]
        monkeypatch.setattr(gathering, "MOST_WHOLE_LOOKS", 4)
        fds = (await client.get(f"/v1/jobs/{JOB}/fds")).json()
        assert [gap["rank"] for gap in fds["gaps"]] == [0, 1, 2, 3]
