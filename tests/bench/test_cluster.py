"""The simulated cluster behaves as the benchmark needs it, at a size that every machine has room for."""

import time
import zlib
from collections.abc import Iterator

import httpx
import pytest

from shared.wire.snapshot import NodeSnapshot, RankList
from shared.wire.survey_form import Survey
from tests.bench.cluster import WrongVerdict, diagnose_these, hold_to_truth
from tests.bench.simulated.answers import Body, Stamps, plain
from tests.bench.simulated.farm import Farm, agents
from tests.bench.simulated.job import NAME, PER_NODE, SimulatedJob
from tests.bench.simulated.nodes import IDLE_SECONDS, SimulatedNode, stopped_before
from tests.bench.simulated.processes import NOW_NS

NODES = 8
_REST = {"headline": "", "coverage": {"seen": 0}, "took_seconds": 1.0}


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    """Agents of a job that hangs."""
    with agents(NODES) as farm:
        yield farm


@pytest.mark.slow
def test_collector_names_the_rank_that_holds_the_job_up(farm: Farm) -> None:
    """A real collector, asked about a simulated job; bytes are counted."""
    measured = diagnose_these(farm, 1)
    (run,) = measured.runs
    assert run.received_bytes > 100_000 * NODES // 8
    assert run.requests >= NODES and run.cpu_seconds > 0 and measured.peak_bytes > 2**20


def test_wrong_verdicts_are_not_accepted(farm: Farm) -> None:
    """A diagnosis that names another rank, or none, fails the benchmark."""
    found = {"kind": "rank_not_joined", "culprits": [{"rank": 3}], "cause": "dataloader"}
    for findings in ([], [found]):
        with pytest.raises(WrongVerdict):
            hold_to_truth({"verdict": "hung", "findings": findings, **_REST}, farm)


def test_agents_answer_over_http_with_the_present_time(farm: Farm) -> None:
    """Each address answers for its own node, compressed or not, and what it says of the time is true."""
    farm.begin()
    with httpx.Client(trust_env=False) as client:
        urls = farm.addresses
        hosts = {RankList.model_validate_json(client.get(f"{url}/v1/ranks").content).host for url in urls}
        assert len(hosts) == NODES
        before = time.time_ns()
        for encoding in ("gzip", "identity"):
            answer = client.get(f"{urls[3]}/v1/snapshot", params={"job": NAME}, headers={"Accept-Encoding": encoding})
            seen = NodeSnapshot.model_validate_json(answer.content)
            assert answer.headers.get("Content-Encoding", "identity") == encoding
            assert [rank.identity.rank for rank in seen.ranks] == list(range(3 * PER_NODE, 4 * PER_NODE))
            assert seen.taken_at_ns is not None and before <= seen.taken_at_ns <= time.time_ns()
        survey = Survey.model_validate_json(client.get(f"{urls[3]}/v1/survey", params={"job": NAME}).content)
        assert len(survey.ranks) == PER_NODE
        pid = seen.ranks[2].identity.pid
        deep = client.get(f"{urls[3]}/v1/snapshot", params={"pid": str(pid), "stacks": "native"}).content
        assert [rank.identity.pid for rank in NodeSnapshot.model_validate_json(deep).ranks] == [pid]
        report = farm.report()
        assert sum(report.requests.values()) == NODES + 4 and report.sent_bytes > 100_000


def test_a_stamped_body_is_the_body_compressed_anew() -> None:
    """Exchanging times in a compressed body leaves a valid one, checksum included, of the text with these times."""
    stopped_ns = stopped_before(time.time_ns())
    node = SimulatedNode(SimulatedJob(NODES), 6, stopped_ns=stopped_ns)
    body = node.snapshot().model_dump_json().encode()
    ready = Body(body)
    for later_ns in (0, 1, 987_654_321, 10**11):
        stamps = Stamps.at(time.time_ns() + later_ns, stopped_ns)
        wanted = body.replace(str(NOW_NS).encode(), stamps.now).replace(f"{IDLE_SECONDS:.3f}".encode(), stamps.idle)
        assert plain(ready.at(stamps)) == zlib.decompressobj(31).decompress(ready.at(stamps)) == wanted
        assert stamps.now in wanted and stamps.idle in wanted
