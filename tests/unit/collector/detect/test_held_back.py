"""Alarms that are held back, and those that cannot wait: for what may be healthy work, or for a timeout."""

import pytest

from collector.detect.detector import Detector
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import JobState
from shared.answer.words import Cause, Certainty, Kind, Verdict
from tests.build.jobs.watching import DEMO, Watching, digest, hung, stood


@pytest.mark.parametrize(
    ("certainty", "kind", "suffices"),
    [
        (Certainty.PROVEN, Kind.COLLECTIVE_MISMATCH, True),
        (Certainty.SUPPORTED, Kind.P2P_DEADLOCK, True),
        (Certainty.SUSPECTED, Kind.P2P_DEADLOCK, False),
        (Certainty.SUPPORTED, Kind.STUCK_TOGETHER, False),
    ],
)
def test_looks_before_the_jobs_own_timeout_strikes(certainty: Certainty, kind: Kind, suffices: bool) -> None:
    """Though its pauses are long: the evidence goes with the job. What is sure then need not be found again."""
    one = Watching(Detector(usual_pauses={DEMO: 400.0}))
    one.tell(digest([1.0] * 4, timeout=100.0))
    one.tell(digest([59.0] * 4, timeout=100.0), after=58.0)
    assert one.asked() == ""
    assert "operations time out after 100 s" in one.asked(after=1.5)
    assert one.answer(hung()) is None
    one.tell(digest([97.0] * 4, timeout=100.0), after=36.0)
    assert one.asked()
    assert one.patience == 0.0
    alarm = one.answer(hung(kind=kind, certainty=certainty))
    assert (alarm is not None) is suffices
    assert alarm is None or alarm.incident.times_out_at == "2026-01-01T00:01:40Z"


@pytest.mark.parametrize(
    ("found", "held"),
    [
        (hung(cause=Cause.CHECKPOINT), 540.0),
        (hung(where="evaluate"), 540.0),
        (hung(cause=Cause.COMPILE), 540.0),
        (hung(cause=Cause.IMPORT), 300.0),
        (hung(kind=Kind.COLLECTIVE_MISMATCH, cause=Cause.CHECKPOINT), 0.0),
        (hung(where="reevaluated"), 0.0),
    ],
)
def test_what_a_healthy_job_may_be_at_work_on_is_held_back(found: Diagnosis, held: float) -> None:
    """For as long as it may take, but not beyond the job's own timeout: then the job is lost anyway."""
    one = stood(31.0, timeout=600.0)
    assert one.asked() and one.answer(found) is None
    waited = 31.0
    while waited < 2000.0:
        waited += 10.0
        one.tell(digest([waited] * 4, timeout=600.0), after=10.0 - 1.0)
        if one.asked() and one.answer(found) is not None:
            break
        one.now += 0.0
    assert held <= waited <= max(60.0, 1.2 * held + 20.0)


@pytest.mark.parametrize(
    ("world_size", "silent", "first", "last"),
    [(4, True, 240.0, 270.0), (4, False, 480.0, 580.0), (8, False, 0.0, 20.0)],
    ids=["silent", "tells and cannot be asked", "never told"],
)
def test_ranks_that_cannot_be_looked_at_hold_an_alarm_back(
    world_size: int, silent: bool, first: float, last: float
) -> None:
    """Their node may stand still, for minutes after it was last heard of, however long all ranks have stood before."""
    one, found = Watching(), hung(kind=Kind.RANK_UNREACHABLE, cause=Cause.UNKNOWN)
    begun, waited = 300.0, 0.0
    for host, ranks in (("node1", 0), ("node2", 2)):
        one.tell(digest([begun] * 2, first=ranks, world_size=world_size), host=host)
    while waited < 2000.0:
        waited += 10.0
        told = digest([begun + waited] * 2, world_size=world_size)
        one.tell(told, after=10.0 - 1.0)
        if not silent:
            one.tell(digest([begun + waited] * 2, first=2, world_size=world_size), host="node2")
        if one.asked() and one.answer(found, after=1.0) is not None:
            break
    assert first <= waited <= last


def test_a_node_that_stands_still_again_and_again_is_no_alarm() -> None:
    """Each time counts anew, though whoever looks never sees it."""
    one, found = Watching(), hung(kind=Kind.RANK_UNREACHABLE, cause=Cause.UNKNOWN)
    one.tell(digest([300.0] * 2), host="node1")
    one.tell(digest([300.0] * 2, first=2), host="node2")
    for waited in range(10, 400, 10):
        one.tell(digest([300.0 + waited] * 2), host="node1", after=9.0)
        if waited % 150 == 0:
            one.tell(digest([300.0 + waited] * 2, first=2), host="node2")
        assert not one.asked() or one.answer(found) is None


def held_up(*, since: str = "2026-01-02T03:04:05Z", lasted: float = 40.0, hung_from: str) -> Diagnosis:
    """A diagnosis in which a rank demonstrably works while the others wait."""
    found = hung(kind=Kind.HELD_UP, lasted=lasted)
    told = found.findings[0].model_copy(update={"since": since, "hung_from": hung_from})
    return found.model_copy(update={"verdict": Verdict.SLOW, "findings": (told,)})


def test_job_that_is_held_up_is_slow_and_no_alarm_before_it_would_be_called_hung() -> None:
    """And it is looked at again then, and not when it has stood twice as long."""
    watching = stood(400.0)
    assert watching.asked()
    diagnosis = held_up(lasted=400.0, hung_from="2026-01-02T03:14:05Z")  # ten minutes after it began
    assert watching.answer(diagnosis) is None
    assert watching.state is JobState.SLOW and watching.detector.jobs[DEMO].suspected is None
    assert not watching.asked(after=190.0)
    watching.tell(digest([601.0] * 4))
    assert watching.asked(after=15.0)
    assert watching.answer(hung()) is None
    assert watching.asked(after=6.0)
    assert watching.answer(hung(id="d2")) is not None


def test_what_was_held_up_and_goes_on_is_no_longer_slow() -> None:
    watching = stood(60.0)
    assert watching.asked()
    assert watching.answer(held_up(hung_from="2026-01-02T03:14:05Z")) is None
    watching.tell(digest([1.0] * 4, sequences=(10,) * 4), after=10.0)
    watching.asked(after=1.0)
    assert watching.state is not JobState.QUIET
    watching.tell(digest([45.0] * 4, sequences=(10,) * 4), after=45.0)
    assert not watching.asked() or watching.state is JobState.SUSPECTED


@pytest.mark.parametrize(("sequence", "worked_for", "raised"), [(10, 0, True), (1, 0, False), (None, 900, True)])
def test_job_whose_marks_are_unread_begins_by_what_else_is_known(
    sequence: int | None, worked_for: int, raised: bool
) -> None:
    """By the operation that was found unfinished, or as it was at work for a quarter of an hour: not for ever."""
    watching = Watching()
    found = hung(kind=Kind.STUCK_TOGETHER)
    found = found.model_copy(update={"findings": (found.findings[0].model_copy(update={"sequence": sequence}),)})
    for idle, after in ((1.0, 0.0), (1.0, worked_for), (61.0, 61.0)):
        watching.tell(digest([None] * 4, idle=idle, sequences=(-1,) * 4), after=after)
    assert watching.asked(after=6.0) and watching.answer(found) is None
    assert (watching.asked(after=6.0) != "" and watching.answer(found) is not None) is raised


@pytest.mark.parametrize(("steps", "raised"), [(26, True), (1, False)])
def test_store_wait_in_mid_training_is_no_first_step(steps: int, raised: bool) -> None:
    """A key that nobody sets, after many steps, is an alarm as quickly as any other; a rendezvous has its minutes."""
    watching = Watching()
    watching.tell(digest([60.0] * 4, sequences=(steps,) * 4), after=60.0)
    assert watching.asked()
    assert watching.answer(hung(cause=Cause.RENDEZVOUS)) is None
    watching.asked(after=6.0)
    alarm = watching.answer(hung(cause=Cause.RENDEZVOUS, id="d2"))
    assert (alarm is not None) is raised
