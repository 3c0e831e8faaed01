"""Both services do what their OpenAPI documents say: Schemathesis makes requests from these, right and wrong ones.

It asks on real sockets, through connection guard and authorization. These answers are right, although it takes them for
faults:

- 400 to what a schema allows: a rank set that runs backwards, a registrant's URL that is none (`_CONFIG`).
- 502 of a closer look: an agent that has the rank does not answer, or none that answers has it (`_CONFIG`).
- Events are followed for minutes: `GET /v1/events` is asked for none of them below (`_CONFIG`).
- `Allow` with GET where only POST is described: names of jobs may hold slashes, so a GET of `/v1/jobs/a/diagnoses`
  asks for the job `a/diagnoses` (`_CONFIG`).
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.proc.procfs import ProcFs
from collector.app import create_app
from collector.settings import CollectorSettings
from shared.wire.debug_output import DeepLook, How
from tests.build.agents.fake_agents import FakeAgent, make_rank, mounts
from tests.build.processes.commands import REPOSITORY
from tests.build.processes.processes import SLEEP, rank_environment, running
from tests.build.services.services import running as running_service
from tests.build.services.services import write_token
from tests.system.attacks.served import TOKEN, serve

pytestmark = [pytest.mark.slow]

RANK = 900_429
JOB = "slurm-4242"
"""The example in the collector's description, so that requests made from examples find it."""

_HEADERS = {"Authorization": f"Bearer {TOKEN}"}

_CONFIG = """
[phases.stateful]
enabled = false

[generation]
deterministic = true
max-examples = 5

[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 502]

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 502]

[[operations]]
include-name = "POST /v1/jobs/{job}/diagnoses"
checks.allow_header_conformance.enabled = false

[[operations]]
include-name = "GET /v1/events"
enabled = false
"""
"""For Schemathesis, which makes the same requests each time. All its checks are made but for what is named here."""

_RUN_SECONDS = 240.0

_QUERIES: dict[str, dict[str, Any]] = {"deep": {"how": "gdb"}, "events": {"seconds": 0}}
_OF_INCIDENTS = ("/v1/incidents/{id}", "/v1/silences/{id}", "/v1/preflights/{id}")
"""Of which there are none here: tests/unit/collector/test_watching.py has some."""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an agent of one rank only, which each look stops for a moment: none where it is not there.

    It sees what this process has started: for each of hundreds of answers it would look through all that runs here.
    """
    folder = tmp_path_factory.mktemp("agent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProcFs, "pids", _own)
        with serve("agent", folder, token_file=write_token(folder, TOKEN), only_ranks=str(RANK)) as service:
            yield service.plain_url("")


def _own(procfs: ProcFs) -> list[int]:
    """Return our process id, and those of our children."""
    lists = [list.read_text("ascii") for list in (procfs.root / "self" / "task").glob("*/children")]
    return sorted([os.getpid(), *map(int, " ".join(lists).split())])


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a collector of one node with two ranks, which takes registrations of agents that do not answer."""
    folder = tmp_path_factory.mktemp("collector")
    chosen = CollectorSettings(
        agents="node1",
        store=folder / "store.sqlite3",
        audit_log=folder / "audit.jsonl",
        token_file=write_token(folder, TOKEN),
        registration_seconds=60,
        interval_seconds=0.01,
    )
    node = FakeAgent("node1", [make_rank(rank, host="node1", job=JOB) for rank in range(2)])
    node.app.get("/v1/ranks/{pid}/deep")(_look_closely)
    app = create_app(chosen, mounts=mounts(node), transport=httpx.MockTransport(_refuse))
    with running_service(app, chosen, app.state.audit) as service:
        yield service.plain_url("")


def _look_closely(pid: int, how: How) -> DeepLook:
    return DeepLook(rank=pid - 1000, host="node1", pid=pid, how=how, remark="a test")


def _refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody listens there", request=request)


@pytest.mark.parametrize("kind", ["agent", "collector"])
def test_it_does_what_is_described(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Statuses, media types, schemas and headers are those of the document."""
    (tmp_path / "schemathesis.toml").write_text(_CONFIG)
    url = request.getfixturevalue(kind)
    program = Path(sys.executable).with_name("schemathesis")
    command = (program, "--no-color", "run", f"{url}/openapi.json", "--header", f"Authorization: Bearer {TOKEN}")
    # Tables of characters, which take half a second to make, are there since the first time.
    env = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(REPOSITORY / ".hypothesis")}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=_RUN_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.ptrace
def test_what_there_is_of_a_rank(agent: str) -> None:
    """Made-up pids are of nobody: here each look at one rank, and at all, gives what is described."""
    with running(SLEEP, env=rank_environment(RANK, port=29429, world_size=RANK + 1)) as process:
        assert _statuses(agent, pid=process.pid) == {200}


def test_what_there_is_of_a_diagnosis(collector: str) -> None:
    """Made-up ids are of nothing: here each route about a job or diagnosis gives what is described."""
    made = httpx.post(
        f"{collector}/v1/jobs/{JOB}/diagnoses",
        params={"wait": 60},
        headers=_HEADERS,
        timeout=60,
    )
    assert _statuses(collector, id=made.json()["id"], job=JOB, rank=1) == {200}


def _statuses(url: str, **parameters: Any) -> set[int]:
    """GET everything, check the answers, and return their statuses."""
    import schemathesis  # takes a second, which listing the tests need not

    seen = set()
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.method.upper() == "GET":
            named = {one.name: parameters[one.name] for one in operation.path_parameters}
            asked = _QUERIES.get(operation.path.rpartition("/")[2], {})
            if operation.path in _OF_INCIDENTS:
                continue
            case = operation.Case(path_parameters=named, query=asked)
            answer = case.call(base_url=url, headers=_HEADERS)
            case.validate_response(answer)
            seen.add(answer.status_code)
    return seen
