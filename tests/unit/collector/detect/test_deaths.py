"""Jobs that die: one rank, all of them, after they were found hung, and as far as one node knows."""

from shared.answer.diagnosis import Diagnosis, Finding
from shared.answer.incidents import JobState
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.wire.registration import ExitedRank
from tests.build.jobs.watching import DEMO, Watching, digest, hung, stood


def test_rank_that_crashed_while_others_live() -> None:
    """At once, and the alarm is not held back; one that ended well only if the others stand still."""
    one = Watching()
    one.tell(digest([1.0] * 4))
    one.tell(digest([1.0] * 3, exited=(ExitedRank(rank=3, signal=9),)), after=5.0)
    assert one.asked() == ""
    assert one.asked(after=3.0) == "rank 3 has ended while others live"
    assert one.answer(hung(kind=Kind.RANK_MISSING, cause=Cause.CHECKPOINT)) is None
    assert one.asked(after=6.0) and one.answer(hung(kind=Kind.RANK_MISSING, cause=Cause.CHECKPOINT)) is not None
    fine = Watching()
    fine.tell(digest([1.0] * 3, exited=(ExitedRank(rank=3, exit_code=0),)))
    assert fine.asked(after=20.0) == ""


def dead(cause: Cause = Cause.SIGNAL) -> Diagnosis:
    """A diagnosis of a job that died."""
    finding = Finding(kind=Kind.RANK_EXITED, cause=cause, certainty=Certainty.PROVEN, ended="0-3")
    return Diagnosis(
        id="dead",
        job="demo",
        user="1000",
        verdict=Verdict.DIED,
        headline="Died: ranks 0-3 were killed by signal 9; when last seen, …",
        findings=(finding,),
    )


def killed(one: Watching, **how: int) -> None:
    """All ranks have ended, and the job is looked at for that."""
    one.tell(digest([], exited=tuple(ExitedRank(rank=rank, **(how or {"signal": 9})) for rank in range(4))), after=2.0)
    assert one.asked(after=3.0) == "rank 0 has ended badly, and the job with it"


def test_incident_of_a_job_that_was_killed_stands() -> None:
    """One look is enough, for nothing changes any more. It is over when the job runs again, or after an hour."""
    one = Watching()
    one.tell(digest([1.0] * 4))
    killed(one)
    alarm = one.answer(dead())
    assert alarm is not None and alarm.diagnoses == ("dead",) and alarm.incident.job_ended
    assert (alarm.incident.kind, alarm.incident.culprits) == (Kind.RANK_EXITED, ())
    assert alarm.incident.died
    assert alarm.incident.headline == "Died: ranks 0-3 were killed by signal 9; when last seen, …"
    one.opens(job_ended=True)
    assert one.over(after=60.0) == "" and one.asked() == "" and one.state is JobState.DIED
    one.tell(digest([1.0] * 4), after=1.0)
    assert one.over() == "" and one.over(after=10.0) == "the job runs again"
    late = Watching()
    late.detector.adopt([alarm.incident.model_copy(update={"id": "i1"})], late.now)
    late.tell(digest([], exited=(ExitedRank(rank=0, signal=9),)))
    assert late.over(after=900.0) == "" and late.over(after=3000.0) == "the job has died"


def test_node_that_has_not_reported_the_end_yet_does_not_run_again() -> None:
    """Its last digest is from before the job was killed: the incident is neither over nor raised a second time."""
    one = Watching()
    one.tell(digest([1.0] * 2), host="node1")
    one.tell(digest([1.0] * 2, first=2), host="node2")
    one.tell(digest([], exited=tuple(ExitedRank(rank=rank, signal=9) for rank in range(2))), host="node1", after=2.0)
    assert one.asked(after=3.0) == "rank 0 has ended while others live"
    assert one.answer(dead()) is not None
    one.opens(job_ended=True)
    assert one.over(after=20.0) == "" and one.asked(after=20.0) == ""
    one.tell(digest([1.0] * 2, first=2), host="node2")  # it was sent before
    assert one.over(after=2.0) == "" and one.asked() == ""
    one.tell(digest([], exited=tuple(ExitedRank(rank=rank, signal=9) for rank in range(2, 4))), host="node2")
    assert one.over(after=60.0) == "" and one.asked() == ""


def test_job_that_died_after_it_was_found_hung_once() -> None:
    """The incident names what held it, with both diagnoses; not where that may have been a healthy job's work."""
    one = stood()
    assert one.asked() and one.answer(hung(id="d1")) is None
    killed(one)
    alarm = one.answer(dead())
    assert alarm is not None and alarm.diagnoses == ("d1", "dead")
    assert (alarm.incident.kind, alarm.incident.headline) == (Kind.RANK_NOT_JOINED, "Hung: rank 3")
    saving = stood()
    assert saving.asked() and saving.answer(hung(cause=Cause.CHECKPOINT)) is None
    killed(saving)
    alarm = saving.answer(dead())
    assert alarm is not None and alarm.incident.kind is Kind.RANK_EXITED


def test_job_that_timed_out_after_it_was_found_hung_once() -> None:
    """Its watchdog or its timeout ended it with an error; one that was ended by somebody is no incident."""
    one = stood()
    assert one.asked() and one.answer(hung()) is None
    killed(one, exit_code=1)
    alarm = one.answer(dead(Cause.UNKNOWN))
    assert alarm is not None and alarm.incident.kind is Kind.RANK_NOT_JOINED and not alarm.incident.died
    ended = stood()
    assert ended.asked() and ended.answer(hung()) is None
    killed(ended, signal=15)
    assert ended.answer(dead(Cause.CANCELLED)) is None and ended.state is not JobState.FINISHED
    failed = Watching()
    failed.tell(digest([1.0] * 4))
    killed(failed, exit_code=1)
    alarm = failed.answer(dead(Cause.UNKNOWN))
    assert alarm is not None and alarm.incident.died


def test_open_incident_of_a_job_that_dies_keeps_how() -> None:
    """What its ranks did last is added to it before it is over."""
    one = stood()
    assert one.asked() and one.answer(hung(id="d1")) is None and one.asked(after=6.0)
    first = one.answer(hung(id="d2"))
    assert first is not None
    one.opens()
    killed(one)
    assert one.over(after=4.0) == ""
    alarm = one.answer(dead())
    assert alarm is not None and alarm.incident.key == first.incident.key and alarm.diagnoses == ("d2", "dead")
    assert one.over(after=2.0) == ""
    one.opens()
    assert one.over(after=6.0) == "the job has died"
    one.detector.closed(DEMO, one.now)
    assert [one.asked(after=2.0) for _ in range(30)] == [""] * 30
    one.tell(digest([1.0] * 4), after=1.0)
    killed(one)  # another run of that name is another matter


def test_end_of_a_job_that_nobody_can_look_at() -> None:
    """Its incident waits for that look as long as one is due, and no longer."""
    one = stood()
    one.opens()
    killed(one)
    assert one.over(after=10.0) == "" and one.answer(None) is None
    assert one.over(after=20.0) == "the job has died"
    quiet = stood()
    quiet.opens()
    quiet.tell(digest([], exited=tuple(ExitedRank(rank=rank, exit_code=0) for rank in range(4))))
    assert quiet.over(after=1.0) == "" and quiet.over(after=5.0) == "the job has finished"


def test_whatever_a_job_is_found_with_is_more_of_its_open_incident() -> None:
    """A rank that others wait for is killed: one fault has taken the place of the other, and both are one incident."""
    one = stood()
    one.opens()
    assert one.asked(after=901.0) and one.answer(hung(kind=Kind.RANK_EXITED, id="d3")) is None
    one.now += 6.0
    alarm = one.answer(hung(kind=Kind.RANK_EXITED, id="d4"))
    assert alarm is not None and (alarm.incident.id, alarm.incident.kind) == ("i1", Kind.RANK_EXITED)
