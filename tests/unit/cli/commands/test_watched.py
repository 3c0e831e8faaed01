"""`unhang incidents`, `silence`, `history` and `watch`, at a real collector with a store of some incidents."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from cli.sources.incidents import REPEATED, History, follow_events, open_event, repeated_nodes
from cli.sources.remote import Remote
from cli.tables.incidents import event_line, history_table
from collector.app import create_app, get_service
from collector.files.diagnose_files import diagnose_directory
from collector.settings import CollectorSettings
from shared.answer.action import Action
from shared.answer.incidents import Incident, IncidentChange, IncidentChangeKind, IncidentEvent, IncidentState
from shared.answer.words import Act, Cause, Kind
from tests.build.processes.commands import unhang
from tests.build.services.services import running
from tests.unit.collector.keep.watched.test_incidents import draft


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[str]:
    """The URL of a collector that has kept four incidents of one node, and one of another."""
    settings = CollectorSettings(
        agents="node9", store=str(tmp_path / "store.sqlite3"), audit_log=tmp_path / "audit.jsonl"
    )
    app = create_app(settings)
    with running(app, settings, app.state.audit) as service:
        incidents = get_service(app).store.incidents
        for number in range(4):
            incidents.report(draft(sequence=number), ["d"])
        incidents.report(draft("other", host="node2"), ["d"])
        yield service.plain_url("")


def asked(*arguments: str) -> str:
    """What a command prints."""
    done = unhang(*arguments)
    assert done.status == 0, done.err
    return done.out


def test_incidents_are_listed_and_answered(collector: str) -> None:
    """Newest first, as a table and as JSON; acknowledged, and called a false alarm."""
    table = asked("incidents", "--collector", collector)
    assert [line.split()[4] for line in table.splitlines()[1:]] == ["other", "demo", "demo", "demo", "demo"]
    (other,) = json.loads(asked("incidents", "--json", "--host", "node2", "--collector", collector))["incidents"]
    assert "acknowledged" in asked("incidents", "--acknowledge", other["id"], "--by", "ann", "--collector", collector)
    asked("incidents", "--false-alarm", other["id"], "--collector", collector)
    (changed,) = json.loads(asked("incidents", "--json", "--state", "false_alarm", "--collector", collector))[
        "incidents"
    ]
    assert [change["kind"] for change in changed["history"]] == ["opened", "acknowledged", "false_alarm"]


def test_silences(collector: str) -> None:
    """Made, listed and ended."""
    said = asked("silence", "job=demo", "host!~node2|node3", "--comment", "new disks", "--collector", collector)
    assert "job=demo host!~node2|node3" in said and "active" in said
    (kept,) = json.loads(asked("silence", "--list", "--json", "--collector", collector))["silences"]
    listed = asked("incidents", "--collector", collector)
    assert listed.count("(silenced)") == 4
    asked("silence", "--expire", kept["id"], "--collector", collector)
    assert "expired" in asked("silence", "--list", "--collector", collector)


@pytest.mark.parametrize(
    "arguments",
    [
        ["silence", "job=demo"],
        ["silence"],
        ["silence", "--list", "--expire", "x"],
        ["silence", "job", "--comment", "x"],
        ["silence", "job=x", "--comment", "x", "--for", "soon"],
        ["incidents", "--acknowledge", "a", "--false-alarm", "b"],
    ],
)
def test_wrong_calls_are_refused(arguments: list[str]) -> None:
    """Before anything is asked."""
    assert unhang(*arguments, "--collector", "http://localhost:1").status == 2


def test_node_that_was_culprit_four_times_is_named(collector: str) -> None:
    """First of all; one that was once is not."""
    told = asked("history", "--collector", collector)
    assert told.startswith("node1 had culprits in 4 incidents in 30 days (rank_not_joined); nothing in their causes (")
    assert "node2 had" not in told and "Incidents" in told
    found = json.loads(asked("history", "--json", "--job", "other", "--collector", collector))
    assert (found["repeated"], len(found["incidents"])) == ([], 1)


@pytest.mark.parametrize(
    ("causes", "said"),
    [
        ("user_code dataloader user_code exception", "nothing in their causes (user code, dataloader, exception)"),
        ("unknown unknown unknown unknown", "nothing in their causes (unknown) points to its hardware"),
        ("network gpu_fault network device_sync", "hardware can cause 4 of them (network, gpu fault, device sync)"),
        ("network user_code user_code user_code", "hardware can cause 1 of them (user code, network): too few"),
        ("network gil gpu_fault network filesystem", "hardware can cause 3 of them"),
        ("network gil gpu_fault network communication", "hardware can cause 4 of them"),
    ],
)
def test_cause_decides_whether_hardware_is_looked_at(causes: str, said: str) -> None:
    """Four incidents of programs on one node say nothing of the node."""
    incidents = [
        Incident.model_construct(hosts=("node1",), kind=Kind.RANK_NOT_JOINED, cause=Cause(cause), state="resolved")
        for cause in causes.split()
    ]
    (node,) = repeated_nodes(incidents)
    told = history_table(History(days=30, repeated=(node,)))
    assert said in told
    assert ("check its hardware" in told) == (node.of_hardware >= REPEATED)


def test_watching_begins_with_what_is_open(collector: str) -> None:
    """Whose job, where, how sure, how often before, what to do, and a link."""
    with httpx.Client(base_url=collector) as client, closing(follow_events(Remote(client))) as events:
        opened = [next(events).incident for _ in range(5)]
    assert [each.job for each in opened] == ["demo", "demo", "demo", "demo", "other"]
    assert [each.before for each in opened] == [0, 1, 2, 3, 0]
    act = Action(do=Act.FREE, text="resume rank 3", command="kill -CONT 7", host="node1")
    known = opened[2].model_copy(update={"owner": "ada", "action": act})
    told = event_line(open_event(known), "http://head:8470/").splitlines()
    assert f"demo of ada  {known.headline} ({known.certainty}, on node1; 3rd time, in this job)" in told[0]
    assert told[1:3] == ["  act  free: resume rank 3", "       node1$ kill -CONT 7"]
    assert told[3] == f"  see  http://head:8470/incidents/{known.id}"
    assert event_line(open_event(known)).endswith("  see  unhang diagnose -- demo\n")
    died = IncidentChange(at="2026-01-01T00:00:00Z", kind=IncidentChangeKind.RESOLVED, note="the job has died")
    over = known.model_copy(update={"state": IncidentState.RESOLVED, "history": (died,)})
    line = event_line(IncidentEvent(id=2, at=died.at, kind=died.kind, incident=over))
    assert "  resolved (the job has died)  demo of " in line and line.count("\n") == 1
    left = event_line(IncidentEvent(id=3, at=died.at, kind=IncidentChangeKind.RELEASED, incident=known))
    assert "kill" not in left and "see  unhang" in left  # other jobs are held still


def test_needs_a_collector() -> None:
    """But for watching, which may be of this machine."""
    for command in ("incidents", "history"):
        assert unhang(command).status == 2


_CASES = Path(__file__).parents[3] / "data" / "cases"


def test_two_looks_are_compared(tmp_path: Path) -> None:
    """What differs comes first; a bundle and the files that it was made of differ in when they were judged alone."""
    one, other = str(_CASES / "missing_rank2"), str(_CASES / "all_joined_none_done")
    found = json.loads(asked("compare", one, other, "--json"))
    facts = {fact["name"]: (fact["left"], fact["right"], fact["differ"]) for fact in found["facts"]}
    assert facts["kind"] == ("rank_not_joined", "stuck_together", True)
    assert facts["culprits"] == ("rank 2", "–", True)
    assert facts["verdict"] == ("hung", "hung", False)
    table = asked("compare", one, other)
    assert table.startswith("A: Hung: rank 2 has not joined") and table.index("culprits") < table.index("the same")
    unhang("diagnose", "--from", one, "--save", str(tmp_path))
    (bundle,) = tmp_path.iterdir()
    again = json.loads(asked("compare", one, str(bundle), "--json"))["facts"]
    assert {fact["name"] for fact in again if fact["differ"]} <= {"made at"}


def test_kept_diagnoses_are_compared_by_id(tmp_path: Path) -> None:
    """At a collector that keeps them; an id without one is explained, and one that is not there refused."""
    settings = CollectorSettings(agents="node9", store=str(tmp_path / "s.sqlite3"), audit_log=tmp_path / "audit.jsonl")
    app = create_app(settings)
    with running(app, settings, app.state.audit) as service:
        store, url = get_service(app).store, service.plain_url("")
        ids = []
        for case in ("missing_rank2", "all_joined_none_done"):
            made = diagnose_directory(_CASES / case)
            store.save(made.diagnosis, made.expected, made.snapshots)
            ids.append(made.diagnosis.id)
        facts = json.loads(asked("compare", *ids, "--json", "--collector", url))["facts"]
        assert ("kind", True) in [(fact["name"], fact["differ"]) for fact in facts]
        refused = unhang("compare", ids[0], "0195a1c8", "--collector", url)
        assert (refused.status, "no diagnosis" in refused.err) == (1, True)
    alone = unhang("compare", *ids)
    assert (alone.status, "--collector" in alone.err) == (1, True)
