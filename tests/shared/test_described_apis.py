"""Both services do what their OpenAPI documents say: Schemathesis makes requests from these, right and wrong ones.

It asks on real sockets, through door and gate. These answers are right, although it takes them for faults:

- 400 to what a schema allows: a rank set that runs backwards, a registrant's URL that is none (`_CONFIG`).
- 502 of a closer look: an agent that has the rank does not answer, or none that answers has it (`_CONFIG`).
- `Allow` with GET where only POST is described: names of jobs may hold slashes, so a GET of `/v1/jobs/a/diagnoses`
  asks for the job `a/diagnoses` (`test_collector`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import allow_header_conformance

from agent.app import create_app as create_agent
from agent.settings import AgentSettings
from collector.app import create_app as create_collector
from collector.settings import CollectorSettings
from shared.deep_looks import DeepLook, How
from tests.agent.processes import SLEEP, rank_environment, running
from tests.attacks.served import TOKEN, serve
from tests.collector.fake_agents import FakeAgent, make_rank, mounts
from tests.shared.services import running as running_service

pytestmark = [pytest.mark.slow]

RANK = 900_429
JOB = "slurm-4242"
"""The example in the collector's description, so that requests made from examples find it."""

_HEADERS = {"Authorization": f"Bearer {TOKEN}"}
_CONFIG = schemathesis.Config.from_dict(
    {
        "headers": _HEADERS,
        "checks": {
            "positive_data_acceptance": {"expected-statuses": ["2xx", 400, 401, 403, 404, 502]},
            "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", 502]},
        },
    }
)
_BOUNDED = settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


AGENT = create_agent(AgentSettings(beat_seconds=0)).openapi()
COLLECTOR = create_collector(CollectorSettings(agents="node1", store=Path("nowhere"))).openapi()


def described(document: dict[str, Any]) -> Any:
    """Return the schema that makes requests of a document, one test for each route."""
    return schemathesis.openapi.from_dict(document, config=_CONFIG)


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one token that is known."""
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.touch(mode=0o600)
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture(scope="module")
def agent(token_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an agent of one rank only, which each look stops for a moment: none where it is not there."""
    with serve("agent", tmp_path_factory.mktemp("agent"), token_file=token_file, only_ranks=str(RANK)) as service:
        assert httpx.get(service.plain_url("/openapi.json")).json() == AGENT
        yield service.plain_url("")


@pytest.fixture(scope="module")
def collector(token_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a collector of one node with two ranks, which takes registrations of agents that do not answer."""
    folder = tmp_path_factory.mktemp("collector")
    chosen = CollectorSettings(
        agents="node1",
        store=folder / "store.sqlite3",
        audit_log=folder / "audit.jsonl",
        token_file=token_file,
        registration_seconds=60,
        interval_seconds=0.01,
    )
    node = FakeAgent("node1", [make_rank(rank, host="node1", job=JOB) for rank in range(2)])
    node.app.get("/v1/ranks/{pid}/deep")(_look_closely)
    app = create_collector(chosen, mounts=mounts(node), transport=httpx.MockTransport(_refuse))
    with running_service(app, chosen, app.state.audit) as service:
        assert httpx.get(service.plain_url("/openapi.json")).json() == COLLECTOR
        yield service.plain_url("")


def _look_closely(pid: int, how: How) -> DeepLook:
    return DeepLook(rank=pid - 1000, host="node1", pid=pid, how=how, remark="a test")


def _refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody listens there", request=request)


@described(AGENT).parametrize()
@_BOUNDED
def test_agent(case: schemathesis.Case, agent: str) -> None:
    """Statuses, media types, schemas and headers are those that are described."""
    case.call_and_validate(base_url=agent)


@described(COLLECTOR).parametrize()
@_BOUNDED
def test_collector(case: schemathesis.Case, collector: str) -> None:
    """The same of the collector."""
    shadowed = case.operation.label == "POST /v1/jobs/{job}/diagnoses"
    case.call_and_validate(base_url=collector, excluded_checks=[allow_header_conformance] if shadowed else [])


@pytest.mark.ptrace
def test_what_there_is_of_a_rank(agent: str) -> None:
    """Made-up pids are of nobody: here each look at one rank, and at all, gives what is described."""
    with running(SLEEP, env=rank_environment(RANK, port=29429, world_size=RANK + 1)) as process:
        assert _statuses(described(AGENT), agent, pid=process.pid) == {200}


def test_what_there_is_of_a_diagnosis(collector: str) -> None:
    """Made-up ids are of nothing: here each route about a job or diagnosis gives what is described."""
    made = httpx.post(
        f"{collector}/v1/jobs/{JOB}/diagnoses",
        params={"wait": 60},
        headers=_HEADERS,
        timeout=60,
    )
    assert _statuses(described(COLLECTOR), collector, id=made.json()["id"], job=JOB, rank=1) == {200}


def _statuses(schema: Any, url: str, **parameters: Any) -> set[int]:
    """GET everything, check the answers, and return their statuses."""
    seen = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.method.upper() == "GET":
            named = {one.name: parameters[one.name] for one in operation.path_parameters}
            asked = {"how": "gdb"} if operation.path.endswith("/deep") else {}
            case = operation.Case(path_parameters=named, query=asked)
            answer = case.call(base_url=url, headers=_HEADERS)
            case.validate_response(answer)
            seen.add(answer.status_code)
    return seen
