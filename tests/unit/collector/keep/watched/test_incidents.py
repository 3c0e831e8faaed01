"""Incidents in the store, on each kind of database: one per fault, each change an event, nothing lost or told twice."""

import threading

import pytest

from collector.keep.store import Retention
from collector.keep.watched.incidents import Incidents
from shared.answer.incidents import IncidentChangeKind, IncidentState
from shared.answer.words import Cause, Kind
from shared.errors import InvalidInput, NotFound
from tests.build.jobs.incidents import draft
from tests.unit.collector.conftest import Opener
from tests.unit.collector.keep.test_store import NOW_NS, save


def kinds(incidents: Incidents) -> list[IncidentChangeKind]:
    """What was written, oldest first."""
    return [event.kind for event in incidents.events(after=0)]


def test_same_fault_is_one_incident(opened: Opener) -> None:
    """Whichever replica finds it, and however often."""
    one, two = opened().incidents, opened().incidents
    first = one.report(draft(), ["d1", "d2"])
    again = two.report(draft(), ["d2", "d3"])
    assert first.id == again.id and again.diagnoses == ("d1", "d2", "d3") and again.times_seen == 3
    other = two.report(draft(sequence=8), ["d4"])
    assert other.id != first.id
    assert kinds(one) == [IncidentChangeKind.OPENED, IncidentChangeKind.SEEN_AGAIN, IncidentChangeKind.OPENED]
    assert [each.id for each in one.live()] == [other.id, first.id]
    assert [change.kind for change in one.get(first.id).history] == [
        IncidentChangeKind.OPENED,
        IncidentChangeKind.SEEN_AGAIN,
    ]


def test_life_of_an_incident(opened: Opener) -> None:
    """Acknowledged, resolved, opened again by the same fault, and never again once it was a false alarm."""
    incidents = opened().incidents
    id = incidents.report(draft(), ["d1", "d2"]).id
    assert incidents.acknowledge(id, by="ann", note="mine").state is IncidentState.ACKNOWLEDGED
    first = incidents.acknowledge(id, by="ann", note="mine")
    assert incidents.acknowledge(id) == first
    second = incidents.acknowledge(id, by="bob", note="node07 is cordoned")
    assert (second.history[-1].by, second.acknowledged_at) == ("bob", first.acknowledged_at)
    commented = incidents.comment(id, by="ann", note="it is the loader")
    assert incidents.comment(id, by="ann", note="it is the loader") == commented != second
    resolved = incidents.resolve(id, note="the job has gone on")
    assert (resolved.state, resolved.resolved_at is None) == (IncidentState.RESOLVED, False)
    with pytest.raises(InvalidInput, match="over"):
        incidents.acknowledge(id)
    times = {"still_since": "2026-01-02T00:00:00Z", "times_out_at": "2026-01-02T00:30:00Z"}
    again = incidents.report(draft().model_copy(update=times), ["d3"])
    assert again.state is IncidentState.OPENED and again.model_dump().items() >= times.items()  # of another run
    assert incidents.get(id).resolved_at is None
    assert incidents.false_alarm(id, by="ann").state is IncidentState.FALSE_ALARM
    assert incidents.report(draft(), ["d4"]).state is IncidentState.FALSE_ALARM
    assert incidents.resolve(id, note="ended").state is IncidentState.FALSE_ALARM
    assert kinds(incidents) == [
        IncidentChangeKind.OPENED,
        IncidentChangeKind.ACKNOWLEDGED,
        IncidentChangeKind.ACKNOWLEDGED,
        IncidentChangeKind.COMMENTED,
        IncidentChangeKind.RESOLVED,
        IncidentChangeKind.REOPENED,
        IncidentChangeKind.FALSE_ALARM,
    ]
    assert incidents.live() == ()
    with pytest.raises(NotFound):
        incidents.get("nothing")


def test_what_else_its_job_is_found_with(opened: Opener) -> None:
    """Goes into the incident that is named, while that is open; how the job ended changes none of what it hung in."""
    incidents = opened().incidents
    first = incidents.report(draft(), ["d1"])
    more = draft(sequence=8, host="n9").model_copy(update={"id": first.id, "kind": Kind.RANK_EXITED, "headline": "new"})
    changed = incidents.report(more, ["d2"])
    assert (changed.id, changed.key, changed.kind, changed.hosts) == (first.id, first.key, Kind.RANK_EXITED, ("n9",))
    assert changed.history[-1].note == "new" and incidents.list(host="n9") == (changed,)
    dead = draft().model_copy(update={"id": first.id, "job_ended": True, "died": True, "headline": "Died"})
    died = incidents.report(dead, ["d3"])
    assert (died.headline, died.diagnoses, died.job_ended, died.died) == ("new", ("d1", "d2", "d3"), False, False)
    over = incidents.resolve(first.id, note="the job has died")
    assert incidents.report(dead, ["d4"]) == over  # another replica was quicker
    assert incidents.report(more, ["d5"]).id != first.id


def test_jobs_that_the_same_holds_are_one_incident(opened: Opener) -> None:
    """The first job's, which is over with the last of them; and a false alarm of it is one of all."""
    incidents = opened().incidents
    held = {"roots": ("GPU 3 of n1", "node n1")}
    first = incidents.report(draft("a").model_copy(update=held), ["d1"])
    other, third = (incidents.report(draft(job).model_copy(update={"roots": ("node n1",)}), ["d2"]) for job in "bc")
    assert (other.part_of, third.part_of, incidents.report(draft("d"), ["d3"]).part_of) == (first.id, first.id, None)
    assert incidents.get(first.id).members == (other.id, third.id)
    assert [(change.kind.value, change.note) for change in incidents.get(first.id).history] == [
        ("opened", "no rank has gone on for 31 s"),
        ("joined", "2 other jobs held by the same: node n1"),
    ]
    assert [each.job for each in incidents.held(incidents.get(first.id).members).values()] == ["b", "c"]
    released = incidents.resolve(first.id, note="the job goes on")
    assert released.is_live and released.released_at
    assert incidents.resolve(first.id, note="the job goes on") == released
    incidents.resolve(other.id, note="the job has died")
    assert incidents.get(first.id).is_live
    incidents.resolve(third.id, note="the job has died")
    over = incidents.get(first.id)
    assert (over.state, over.history[-1].note) == (
        IncidentState.RESOLVED,
        "the last of its 3 jobs is over: the job has died",
    )
    again = incidents.report(draft("b").model_copy(update=held), ["d4"])
    assert (again.id, again.part_of) == (other.id, None)  # it stands for itself, and others are part of it
    joined = incidents.report(draft("e").model_copy(update=held), ["d5"])
    assert joined.part_of == other.id
    incidents.false_alarm(other.id, by="ann")
    assert incidents.get(joined.id).state is IncidentState.FALSE_ALARM


def test_a_job_that_waits_for_another_is_part_of_what_holds_that_one(opened: Opener) -> None:
    """Where both are the same user's: jobs of others may have the same name. It holds nobody itself."""
    incidents = opened().incidents
    waits = draft("trainer").model_copy(update={"roots": ("job rollout",)})
    first, foreign = incidents.report(draft("rollout"), ["d1"]), waits.model_copy(update={"user": "2000"})
    assert incidents.report(waits, ["d2"]).part_of == first.id
    own = foreign.fingerprint.model_copy(update={"user": "2000"})
    assert incidents.report(foreign.model_copy(update={"fingerprint": own, "key": own.key}), ["d3"]).part_of is None


def test_lists_by_state_job_and_host(opened: Opener) -> None:
    """As on-call people ask: what is open, what happened to my job, what did this node do."""
    incidents = opened().incidents
    a = incidents.report(draft("a", host="n1"), ["d1"])
    b = incidents.report(draft("b\0", host="n2"), ["d2"])
    incidents.resolve(a.id, note="ended")
    assert [i.id for i in incidents.list(states=[IncidentState.OPENED])] == [b.id]
    assert [i.id for i in incidents.list(job="a")] == [a.id]
    assert [i.id for i in incidents.list(job="b\0")] == [b.id]
    assert [i.id for i in incidents.list(host="n1")] == [a.id]
    assert [i.id for i in incidents.list(limit=1)] == [b.id]
    assert [i.id for i in incidents.list(before=b.id)] == [a.id]


def test_event_numbers_have_no_gaps(opened: Opener) -> None:
    """Two replicas at once: whoever reads on from a number misses nothing."""
    replicas = [opened().incidents, opened().incidents]

    def write(which: int) -> None:
        for sequence in range(10):
            replicas[which].report(draft(f"job{which}", sequence=sequence), ["d"])

    writers = [threading.Thread(target=write, args=(which,)) for which in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [event.id for event in replicas[0].events(after=0)] == list(range(1, 21))
    assert replicas[1].last_event() == 20
    assert [event.id for event in replicas[1].events(after=18)] == [19, 20]


def test_diagnoses_of_an_incident_stay(opened: Opener) -> None:
    """However old they are: they are what it rests on."""
    store = opened(retention=Retention(most_diagnoses=1))
    (held,) = save(store, NOW_NS)
    store.incidents.report(draft(), [held])
    for later in range(1, 4):
        save(store, NOW_NS + later * 10**9)
    assert len(store.list()) == 2 and store.diagnosis(held).id == held


def test_nodes_at_fault_again_and_again(opened: Opener) -> None:
    """For causes that hardware can have, in incidents that are over and were no false alarms; an open one is new."""
    incidents = opened().incidents
    found = [
        *(draft(sequence=n, host="bad").model_copy(update={"cause": Cause.GPU_FAULT}) for n in range(3)),
        *(draft(sequence=n, host="coded") for n in range(10, 13)),
        draft(sequence=20, host="once").model_copy(update={"cause": Cause.NETWORK}),
    ]
    ids = [incidents.report(each, ["d"]).id for each in found]
    assert incidents.faulty_hosts() == ()
    for id in ids[1:]:
        incidents.resolve(id, note="it has ended")
    assert incidents.faulty_hosts() == ("bad",)
    incidents.false_alarm(ids[1])
    assert incidents.faulty_hosts() == ()


def test_how_often_the_same_came_before(opened: Opener) -> None:
    """At one line of jobs of that name, wherever; without a line on the node, if hardware can be at fault."""
    incidents = opened().incidents
    at = {"place": "train.py:8"}
    lines = [draft(sequence=n, host=f"node{n}").model_copy(update=at) for n in range(3)]
    assert [incidents.report(each, ["d"]).again for each in lines] == [
        "",
        "2nd time, at train.py:8",
        "3rd time, at train.py:8",
    ]
    assert incidents.report(draft("other", host="node1").model_copy(update=at), ["d"]).again == ""
    broken = [draft(job, host="node9").model_copy(update={"cause": Cause.GPU_FAULT}) for job in ("else", "more")]
    assert [incidents.report(each, ["d"]).again for each in broken] == ["", "2nd time, on node9"]
    died = [draft(job, host="node8", sequence=n) for n, job in enumerate(("one", "two", "two"))]
    assert [incidents.report(each, ["d"]).again for each in died] == ["", "", "2nd time, in this job"]
