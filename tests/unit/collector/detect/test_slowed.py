"""Jobs that go on slower than they used to, and which rank makes the others wait."""

import pytest

from collector.detect.alarms import Alarm
from shared.answer.diagnosis import Diagnosis
from shared.answer.incidents import JobState
from shared.answer.words import Cause, Kind, Verdict
from tests.build.jobs.watching import DEMO, Watching, digest, hung, well


def slow(rank: int = 2) -> Diagnosis:
    """A diagnosis that names the rank for which the others wait at each step."""
    return hung(kind=Kind.STRAGGLER, cause=Cause.UNKNOWN, rank=rank).model_copy(update={"verdict": Verdict.SLOW})


def trained(*per_minute: int) -> Watching:
    """A job that has issued so many operations a minute, for five minutes each."""
    one, issued = Watching(), 0
    for pace in per_minute:
        for _ in range(10):
            one.tell(digest([0.5] * 4, sequences=(issued,) * 4), after=30.0)
            issued += pace // 2
    one.tell(digest([0.5] * 4, sequences=(issued,) * 4), after=30.0)
    return one


def goes_on(one: Watching, minutes: int) -> str:
    """Why it is looked at within so many minutes of 40 operations each, if it is."""
    for _ in range(2 * minutes):
        issued = one.detector.jobs[DEMO].view.highest + 20
        one.tell(digest([0.5] * 4, sequences=(issued,) * 4), after=30.0)
        if reason := one.asked():
            return reason
    return ""


@pytest.mark.parametrize(
    ("paces", "is_looked_at"),
    [
        ((100, 100, 100, 100, 40, 40), True),
        ((10, 100, 100, 100, 40, 40), True),
        ((100, 100, 100, 100, 40), False),
        ((100, 100, 100, 100, 40, 90), False),
        ((100, 100, 100, 100, 80, 80), False),
        ((100, 100, 40, 40), False),
        ((100, 100, 100, 100, 0, 40, 40), True),
        ((100, 100, 100, 100, 40, 0, 0), False),
    ],
    ids=["slower", "after a slow start", "once", "caught up", "a little", "too soon", "after a pause", "pauses"],
)
def test_job_that_goes_on_slower_than_before_is_looked_at(paces: tuple[int, ...], is_looked_at: bool) -> None:
    """What issues nothing pauses, which other reasons see to."""
    reason = trained(*paces).asked()
    assert reason == ("it issues 2,400 operations an hour in place of 6,000" if is_looked_at else "")


def alarmed() -> tuple[Watching, Alarm]:
    """A job that rank 2 slows down, and the alarm of that."""
    one = trained(100, 100, 100, 100, 40, 40)
    assert one.asked() and one.answer(slow()) is None and one.state is JobState.SLOW
    assert goes_on(one, 9) == "" and "operations an hour" in goes_on(one, 2)
    alarm = one.answer(slow())
    assert alarm is not None
    one.opens("slow1", found=slow())
    return one, alarm


def test_alarm_is_the_same_rank_in_looks_ten_minutes_apart() -> None:
    """Its incident is a slow job's, and no look finds it again at once."""
    one, alarm = alarmed()
    assert (alarm.incident.alert_name, alarm.incident.fingerprint.culprits) == ("UnhangJobSlow", "2")
    assert one.state is JobState.SLOW and goes_on(one, 9) == "" and one.over() == ""


def test_another_rank_or_nobody_begins_anew() -> None:
    """Steps are uneven in turns, too; a look that cannot tell takes nothing back."""
    one = trained(*(100,) * 20, 40, 40)
    for found in (slow(1), slow(2), well(), slow(2), well(Verdict.CANNOT_TELL)):
        assert one.asked() or goes_on(one, 11)
        assert one.answer(found) is None
    assert goes_on(one, 11) and one.answer(slow(2)) is not None


def test_what_was_found_long_ago_is_no_first_look() -> None:
    """Hours in which the job was as fast as ever lie between."""
    one = trained(*(100,) * 20, 40, 40)
    assert one.asked() and one.answer(slow()) is None
    one.now += 5 * 3600.0
    assert goes_on(one, 11) and one.answer(slow()) is None


def test_slow_incident_is_over_when_a_look_finds_nobody() -> None:
    """The job need not be as fast as before for that."""
    one, _ = alarmed()
    assert goes_on(one, 16) and one.answer(well(Verdict.CANNOT_TELL)) is None and one.over() == ""
    assert goes_on(one, 16) and one.answer(well()) is None
    assert one.over() == "no rank makes the others wait any more"


def test_slow_job_that_hangs_is_another_incident_in_its_place() -> None:
    """Whoever was told of a slow job has not been told of a hang."""
    one, _ = alarmed()
    one.tell(digest([31.0] * 4), after=31.0)
    assert "no rank has gone on" in one.asked() and one.answer(hung()) is None
    assert one.asked(after=6.0)
    alarm = one.answer(hung())
    assert alarm is not None and (alarm.incident.id, alarm.ends, alarm.why_ended) == ("", "slow1", "the job hangs")
    one.opens("hung1")
    assert one.state is JobState.HUNG
