"""When a job is looked at, when that is an alarm, and when it is over."""

import sys
from collections.abc import Callable

import pytest

from collector.detect.alarms import Suspected
from collector.detect.detector import Detector, told_of
from shared.answer.diagnosis import Coverage
from shared.answer.incidents import JobState
from shared.answer.words import Kind, Verdict
from shared.wire.registration import NodeDigest
from tests.build.jobs.watching import DEMO, Watching, digest, hung, stood, well


def test_job_that_stands_is_asked_about_and_found_twice() -> None:
    """One finding suspects, the same again is the alarm; the incident names it, with both diagnoses."""
    one = stood(25.0)
    assert one.asked() == "" and one.state is JobState.RUNNING
    assert one.asked(after=6.0) == "no rank has gone on for 31 s" and one.state is JobState.SUSPECTED
    assert one.asked(after=60.0) == ""  # it is being looked at
    assert one.answer(hung(id="d1")) is None and one.state is JobState.SUSPECTED
    assert one.asked(after=5.0) != ""
    alarm = one.answer(hung(id="d2"))
    assert alarm is not None and alarm.diagnoses == ("d1", "d2")
    assert (alarm.incident.job, alarm.incident.user, alarm.incident.hosts) == ("demo", "1000", ("node1",))
    one.opens()
    assert one.state is JobState.HUNG and one.asked(after=60.0) == ""


def test_look_that_cannot_tell_takes_nothing_back() -> None:
    """Agents may have been slow; what was found before is confirmed by the next look. Found well, it is gone."""
    one = stood()
    assert one.asked() and one.answer(hung()) is None
    assert one.asked(after=6.0) and one.answer(well(Verdict.CANNOT_TELL)) is None
    assert one.asked(after=6.0) == "" and one.state is JobState.SUSPECTED
    assert one.asked(after=5.0) and one.answer(hung()) is not None
    other = stood()
    assert other.asked() and other.answer(hung()) is None
    assert other.asked(after=6.0) and other.answer(well()) is None
    assert other.detector.jobs[DEMO].suspected is None


def test_what_was_seen_in_part_is_looked_at_again_soon() -> None:
    """A rank that was not found in time on a busy machine had the next look wait until a node might be back: 209 s."""
    part = Coverage(expected=4, seen=3, answered=3)
    one = stood()
    assert one.asked() and one.answer(hung(id="d1").model_copy(update={"coverage": part})) is None
    assert one.asked(after=9.0) == "" and one.asked(after=1.0)
    alarm = one.answer(hung(id="d2"))
    assert alarm is not None and alarm.diagnoses == ("d1", "d2")
    other = stood()
    waits = []
    for _ in range(4):
        began = other.now
        while not other.asked(after=1.0):
            assert other.now - began < 240.0
        waits.append(round(other.now - began))
        assert other.answer(hung().model_copy(update={"coverage": part}), after=0.0) is None
    assert waits == [1, 10, 10, 20]  # less and less often while no more is seen


def test_job_that_goes_on_between_is_no_alarm() -> None:
    """Whatever it was found with before."""
    one = stood()
    assert one.asked() and one.answer(hung()) is None
    one.tell(digest([0.5] * 4), after=4.0)
    one.tell(digest([31.0] * 4), after=31.0)
    one.detector.jobs[DEMO].pauses.__init__()  # type: ignore[misc]
    assert one.asked() and one.answer(hung()) is None


def test_found_well_is_asked_again_when_it_has_stood_twice_as_long() -> None:
    """Looking costs little, but not nothing; a server that waits for requests does so for days."""
    one = stood()
    assert one.asked() and one.answer(well()) is None
    one.tell(digest([60.0] * 4), after=20.0)
    assert one.asked() == ""
    one.tell(digest([80.0] * 4), after=20.0)
    assert one.asked() != ""
    idle = stood(900.0)
    assert idle.asked() and idle.answer(well(state="idle")) is None
    idle.tell(digest([1600.0] * 4), after=700.0)
    assert idle.asked() == ""


def test_learnt_pauses_lengthen_what_is_usual() -> None:
    """A pause that comes twice counts three times; one that came once may have been an accident."""
    one = Watching()
    for _ in range(2):
        one.tell(digest([1.0] * 4))
        one.tell(digest([21.0] * 4), after=21.0)
        one.tell(digest([100.0] * 4), after=79.0)
        one.detector.jobs[DEMO]._next_ask = 1e9
        one.tell(digest([0.1] * 4), after=1.0)
    (learnt,) = one.detector.check(one.now).learnt
    assert 95.0 < learnt.usual < 105.0
    one.tell(digest([200.0] * 4), after=200.0)
    assert one.asked() == ""
    one.tell(digest([310.0] * 4), after=110.0)
    assert one.asked() != ""
    known = Watching(Detector(usual_pauses={DEMO: 50.0}))
    known.tell(digest([100.0] * 4))
    assert known.asked() == ""
    known.tell(digest([151.0] * 4), after=51.0)
    assert known.asked() != ""


def test_rank_that_keeps_others_waiting_is_noticed_sooner() -> None:
    """The others have issued what it has not."""
    one = stood(21.0, sequences=[9, 9, 9, 8])
    assert one.asked() == "3 ranks wait in an operation that rank 3 has not issued, for 21 s"


@pytest.mark.parametrize(("kind", "first"), [(Kind.RANK_NOT_JOINED, 125.0), (Kind.COLLECTIVE_MISMATCH, 62.0)])
def test_pause_that_the_job_has_come_out_of_before_is_no_alarm(kind: Kind, first: float) -> None:
    """A rank kept others waiting for 100 s and went on: so it may again. What no pause explains is told sooner."""
    one = stood(31.0, sequences=[9, 9, 9, 8])
    one.tell(digest([100.0, 100.0, 100.0, 100.0], sequences=[9, 9, 9, 8]), after=69.0)
    one.tell(digest([0.0] * 4), after=1.0)
    for waited in range(1, 300):
        one.tell(digest([float(waited)] * 4, sequences=[19, 19, 19, 18]), after=1.0)
        if one.asked() and one.answer(hung(kind=kind)) is not None:
            assert first <= waited <= first + 10.0
            return
    pytest.fail("it was never told")


def test_incident_is_over_when_ranks_go_on_or_the_job_ends() -> None:
    """Not at a single step, after which all stand again."""
    one = stood()
    one.opens()
    one.tell(digest([0.5] * 4), after=5.0)
    assert one.over() == ""
    one.tell(digest([25.0] * 4), after=25.0)
    assert one.over(after=5.0) == ""
    one.tell(digest([0.5] * 4), after=5.0)
    assert one.over() == "" and one.over(after=11.0) == "the job goes on"
    ended = stood()
    ended.opens()
    ended.tell(NodeDigest())
    assert ended.over() == "" and ended.over(after=6.0) == "the job has ended"
    ended.detector.closed(DEMO, ended.now)
    assert ended.state is JobState.ENDED


def test_false_alarm_makes_the_pause_usual() -> None:
    """A person has said that nothing was wrong: so long a pause is not asked about again."""
    one = stood(100.0)
    one.opens()
    one.detector.closed(DEMO, one.now, false_alarm=True)
    assert one.detector.check(one.now).learnt[0].usual > 40.0
    one.tell(digest([0.5] * 4), after=10.0)
    one.tell(digest([90.0] * 4), after=90.0)
    assert one.asked() == ""


def test_restart_is_a_new_job_and_left_overs_are_none() -> None:
    """What was suspected is gone with the old ranks; they do not stand for the new ones."""
    one = stood()
    assert one.asked() and one.answer(hung()) is None
    one.tell(digest([1.0] * 4, attempt=1), after=5.0)
    one.tell(digest([500.0] * 4, attempt=0), host="node2", after=5.0)
    assert one.asked(after=6.0) == "" and one.state is JobState.RUNNING


def test_two_nodes_are_one_job() -> None:
    """It stands where all do."""
    one = Watching()
    one.tell(digest([40.0, 40.0]), host="node1")
    one.tell(digest([1.0, 1.0], first=2), host="node2")
    assert one.asked() == ""
    one.tell(digest([35.0, 35.0], first=2), host="node2", after=34.0)
    assert one.asked() == "no rank has gone on for 35 s"
    told = told_of(one.detector.jobs[DEMO], "demo", one.now, since="")
    assert (told.ranks, told.state, told.still_seconds) == ("0-3", JobState.SUSPECTED, 35.0)


def test_what_was_found_before_a_restart_is_confirmed_after_it() -> None:
    """The collector was killed between the two findings: the store remembers the first."""
    one = stood()
    assert one.asked() and one.answer(hung()) is None
    first = one.detector.jobs[DEMO].suspected
    assert first is not None
    other = stood()
    assert other.asked()
    other.detector.recall(DEMO, Suspected(first.key, "d1", other.now - 20.0))
    alarm = other.answer(hung(id="d2"))
    assert alarm is not None and alarm.diagnoses == ("d1", "d2")


def test_open_incidents_are_taken_over() -> None:
    """From the store, before and after their jobs are known; one whose job nobody knows ends after an hour."""
    alarmed = stood()
    assert alarmed.asked() and alarmed.answer(hung()) is None and alarmed.asked(after=6.0)
    alarm = alarmed.answer(hung())
    assert alarm is not None
    incident = alarm.incident.model_copy(update={"id": "i1"})
    one = Watching()
    one.detector.adopt([incident], one.now)
    assert one.detector.incidents() == {"i1": DEMO}
    one.tell(digest([31.0] * 4))
    assert one.asked() == "" and one.state is JobState.HUNG
    lost = Watching()
    lost.detector.adopt([incident], lost.now)
    assert lost.over(after=3700.0) == "no agent reports the job any more"


def test_names_of_two_users_jobs() -> None:
    """Each is asked for with its user, as lists of jobs name them."""
    one = stood()
    assert one.detector.name_of(DEMO) == "demo"
    other = digest([1.0] * 4).jobs[0].model_copy(update={"user": "1001"})
    one.tell(NodeDigest(jobs=(other,)), host="node2")
    assert one.detector.name_of(DEMO) == "demo@1000"
    found = one.detector.find("demo@1001")
    assert found is not None and found.user == "1001"
    one.detector._forget(("demo", "1001"))
    assert one.detector.name_of(DEMO) == "demo" and one.detector.find("demo") is one.detector.jobs[DEMO]
    assert one.detector.find("demo@1001") is None


def steps(done: Callable[[], None]) -> int:
    """How many functions are called, and generators resumed, by what is done."""
    taken = 0

    def count(*_: object) -> None:
        nonlocal taken
        taken += 1

    sys.setprofile(count)
    try:
        done()
    finally:
        sys.setprofile(None)
    return taken


def test_many_jobs_are_named_without_a_look_at_each_other_one() -> None:
    """By counting: the names of four times as many jobs cost four times as many steps, not sixteen times."""

    def named(jobs: int) -> int:
        one = Detector()
        for at in range(jobs):
            one._watch((f"job-{at % (jobs // 2)}", str(at)), 0.0)

        def find() -> None:
            for key in one.jobs:
                assert one.find(one.name_of(key)) is one.jobs[key]

        return steps(find)

    assert named(400) < 5 * named(100)


def test_large_job_goes_on_without_a_look_at_all_ranks_for_each_digest() -> None:
    """By counting, again: after a checkpoint the agents of thousands of nodes say within seconds that it goes on."""

    def going_on(nodes: int) -> int:
        one = Watching()
        for still in (1.0, 25.0):
            for node in range(nodes):
                told = digest([still] * 8, first=8 * node, world_size=8 * nodes)
                one.tell(told, host=f"node{node}", after=24.0 / nodes)
        going = [digest([0.5] * 8, first=8 * node, world_size=8 * nodes) for node in range(nodes)]

        def tell() -> None:
            for node, told in enumerate(going):
                one.tell(told, host=f"node{node}")

        return steps(tell)

    assert going_on(64) < 5 * going_on(16)


def test_a_server_that_was_found_idle_is_looked_at_once_a_request_has_waited() -> None:
    """It is looked at once an hour while nobody asks it anything, and soon after a request has come that waits."""
    watching = stood(100.0)
    assert watching.asked()
    watching.answer(well(state="idle"))
    watching.tell(digest([120.0] * 4, unanswered=19.0), after=20.0)
    assert watching.asked(after=0.5) == ""
    watching.tell(digest([122.0] * 4, unanswered=21.0), after=2.0)
    assert watching.asked() == "a request has been waiting for an answer for 21 s"
    watching.answer(well(Verdict.CANNOT_TELL))
    watching.tell(digest([132.0] * 4, unanswered=31.0), after=10.0)
    assert watching.asked() == "", "a long poll is no reason to look again and again"


def test_a_server_of_one_rank_is_watched_while_somebody_waits_for_it() -> None:
    """One rank alone waits for nobody; clients may wait for it."""
    watching = Watching()
    watching.tell(digest([60.0], world_size=1))
    assert watching.asked() == ""
    watching.tell(digest([62.0], world_size=1, unanswered=25.0), after=2.0)
    assert watching.asked() == "a request has been waiting for an answer for 25 s"


def test_requests_that_wait_are_no_pause_of_ranks() -> None:
    """An engine that has hardly computed yet, or was long idle before, is stuck as soon as it was found so twice."""
    one = Watching(Detector(usual_pauses={DEMO: 5000.0}))
    one.tell(digest([26.0] * 4, sequences=(1,) * 4, unanswered=25.0))
    assert one.asked() and one.answer(hung(kind=Kind.REQUESTS_UNANSWERED, lasted=25.0)) is None
    assert one.asked(after=6.0) and one.answer(hung(kind=Kind.REQUESTS_UNANSWERED, lasted=32.0)) is not None


@pytest.mark.parametrize("answered", [True, False])
def test_a_server_that_has_answered_is_not_stuck_though_nobody_asks_it_more(answered: bool) -> None:
    """A look shows it, as soon as no request waits. That a client has given up shows nothing."""
    one = Watching()
    one.tell(digest([26.0] * 4, unanswered=25.0))
    assert one.asked() and one.answer(hung(kind=Kind.REQUESTS_UNANSWERED, lasted=25.0)) is None
    assert one.asked(after=6.0) and one.answer(hung(kind=Kind.REQUESTS_UNANSWERED, lasted=32.0)) is not None
    one.opens()
    one.tell(digest([46.0] * 4), after=20.0)
    assert one.asked() == "no request waits any more"
    assert one.answer(well(state="idle") if answered else well(Verdict.CANNOT_TELL)) is None
    assert one.over() == ("the server is idle again" if answered else "")
    assert answered or one.asked(after=60.0) == ""


def test_how_long_an_idle_server_is_asked_nothing_is_not_learnt() -> None:
    """What hangs after an idle night is told as soon as after an idle minute."""
    one = stood(100.0)
    assert one.asked() and one.answer(well(state="idle")) is None
    for _ in range(3):
        one.tell(digest([1000.0] * 4), after=900.0)
        one.tell(digest([0.1] * 4), after=1.0)
    assert one.detector.check(one.now).learnt == ()
