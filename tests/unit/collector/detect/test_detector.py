"""When a job is looked at, when that is an alarm, and when it is over: times are the test's own."""

import sys
from collections.abc import Callable, Sequence

import pytest

from collector.detect.detector import Detector, JobKey, told_of
from collector.detect.job_watch import Alarm, Suspected
from shared.answer.diagnosis import Coverage, Culprit, Diagnosis, Finding, GroupRef, Place, Where
from shared.answer.incidents import JobState
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.wire.registration import ExitedRank, JobDigest, NodeDigest, Sign

DEMO: JobKey = ("demo", "1000")


def digest(
    still: Sequence[float | None],
    *,
    first: int = 0,
    sequences: Sequence[int] | None = None,
    idle: float | None = None,
    exited: tuple[ExitedRank, ...] = (),
    timeout: float | None = None,
    attempt: int = 0,
    world_size: int | None = 4,
    job: str = "demo",
    unanswered: float | None = None,
) -> NodeDigest:
    """What a node tells whose ranks have stood still for so long."""
    count = len(still)
    return NodeDigest(
        jobs=(
            JobDigest(
                job=job,
                user="1000",
                attempt=attempt,
                world_size=world_size,
                timeout_seconds=timeout,
                ranks=tuple(range(first, first + count)),
                still=tuple(still),
                idle=(idle,) * count,
                pending=(True,) * count,
                group=(0,) * count,
                sequence=tuple(sequences or (9,) * count),
                groups=("0",),
                exited=exited,
                unanswered=unanswered,
            ),
        )
    )


def hung(
    *,
    kind: Kind = Kind.RANK_NOT_JOINED,
    cause: Cause = Cause.USER_CODE,
    rank: int = 3,
    where: str = "train",
    lasted: float | None = None,
    id: str = "d1",
    certainty: Certainty = Certainty.PROVEN,
) -> Diagnosis:
    """A diagnosis that names a rank."""
    finding = Finding(
        kind=kind,
        cause=cause,
        certainty=certainty,
        culprits=(Culprit(rank=rank, host="node1"),),
        group=GroupRef(name="0"),
        sequence=10,
        where=Where(user=Place(function=where, file="train.py", line=3)),
        lasted_seconds=lasted,
    )
    return Diagnosis(id=id, job="demo", user="1000", verdict=Verdict.HUNG, headline="Hung: rank 3", findings=(finding,))


def well(verdict: Verdict = Verdict.NOT_HUNG, **more: object) -> Diagnosis:
    """A diagnosis that names nobody."""
    return Diagnosis.model_validate({"id": "w", "job": "demo", "verdict": verdict, "headline": "Not hung", **more})


class Watching:
    """A detector, and what it was told until now."""

    def __init__(self, detector: Detector | None = None) -> None:
        self.detector = detector or Detector()
        self.now = 1000.0
        self.patience: float | None = None
        """How much the last look was given."""

    def tell(self, told: NodeDigest, *, host: str = "node1", after: float = 0.0) -> None:
        self.now += after
        self.detector.take(host, told, self.now)

    def asked(self, *, after: float = 0.0) -> str:
        """Why the job is to be looked at, after some time."""
        self.now += after
        due = self.detector.check(self.now)
        self.patience = due.ask[0].patience_seconds if due.ask else None
        return due.ask[0].reason if due.ask else ""

    def answer(self, diagnosis: Diagnosis | None, *, after: float = 1.0) -> Alarm | None:
        self.now += after
        return self.detector.answered(DEMO, diagnosis, self.now)

    def over(self, *, after: float = 0.0) -> str:
        self.now += after
        due = self.detector.check(self.now)
        return due.over[0].why if due.over else ""

    @property
    def state(self) -> JobState:
        return self.detector.jobs[DEMO].state


def stood(seconds: float = 31.0, **more: object) -> Watching:
    """A job of four ranks that has trained, and stands still for so long."""
    made = Watching()
    made.tell(digest([1.0] * 4))
    made.tell(digest([seconds] * 4, **more), after=seconds)  # type: ignore[arg-type]
    return made


def test_job_that_goes_on_is_left_alone() -> None:
    """Its agents tell twice a minute that it does; in between that still holds."""
    one = Watching()
    for _ in range(100):
        one.tell(digest([2.0, 0.5, 7.0, 12.0]), after=30.0)
        assert one.asked(after=15.0) == ""
    assert one.state is JobState.RUNNING


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
    one.detector.opened(DEMO, "i1", one.now)
    assert one.state is JobState.HUNG and one.asked(after=60.0) == ""


def test_another_fault_begins_anew() -> None:
    """Two different findings confirm nothing."""
    one = stood()
    assert one.asked() and one.answer(hung(rank=3)) is None
    assert one.asked(after=6.0) and one.answer(hung(rank=2)) is None
    assert one.asked(after=6.0) and one.answer(hung(rank=2)) is not None


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


def test_suspicion_needs_no_trigger_to_be_confirmed() -> None:
    """What made somebody look may be gone by then: a busy agent reads marks late, and digests come late."""
    one = stood()
    assert one.asked() and one.answer(hung(id="d1")) is None
    one.tell(digest([None] * 4))
    assert one.asked(after=6.0) == "it was found hung once"
    assert one.answer(well()) is None and one.asked(after=31.0) == ""


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


def test_job_that_ended_badly_as_a_whole_is_looked_at_once() -> None:
    """How its ranks ended is known for a while only. One that ended well is left alone."""
    gone = tuple(ExitedRank(rank=rank, signal=9 if rank == 3 else 0, exit_code=None) for rank in range(4))
    one = Watching()
    one.tell(digest([1.0] * 4))
    one.tell(digest([], exited=gone), after=5.0)
    assert one.asked(after=3.0) == "rank 3 has ended badly, and the job with it"
    assert one.answer(well()) is None
    assert one.asked(after=31.0) == "" and one.state is JobState.DIED
    fine = Watching()
    fine.tell(digest([1.0] * 4))
    fine.tell(digest([], exited=(ExitedRank(rank=3, exit_code=0),)), after=5.0)
    assert fine.asked(after=10.0) == ""
    taken_along = Watching()  # a launcher ends the ranks that are left
    taken_along.tell(digest([1.0] * 4))
    gone = tuple(ExitedRank(rank=rank, signal=9 if rank == 2 else 15) for rank in range(4))
    taken_along.tell(digest([], exited=gone), after=5.0)
    assert taken_along.asked(after=3.0) == "rank 2 has ended badly, and the job with it"


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
    one.detector.opened(DEMO, "i1", one.now, job_ended=True)
    assert one.over(after=60.0) == "" and one.asked() == "" and one.state is JobState.DIED
    one.tell(digest([1.0] * 4), after=1.0)
    assert one.over() == "the job runs again"
    late = Watching()
    late.detector.adopt([alarm.incident.model_copy(update={"id": "i1"})], late.now)
    late.tell(digest([], exited=(ExitedRank(rank=0, signal=9),)))
    assert late.over(after=900.0) == "" and late.over(after=3000.0) == "the job has ended"


def test_node_that_has_not_reported_the_end_yet_does_not_run_again() -> None:
    """Its last digest is from before the job was killed: the incident is neither over nor raised a second time."""
    one = Watching()
    one.tell(digest([1.0] * 2), host="node1")
    one.tell(digest([1.0] * 2, first=2), host="node2")
    one.tell(digest([], exited=tuple(ExitedRank(rank=rank, signal=9) for rank in range(2))), host="node1", after=2.0)
    assert one.asked(after=3.0) == "rank 0 has ended while others live"
    assert one.answer(dead()) is not None
    one.detector.opened(DEMO, "i1", one.now, job_ended=True)
    assert one.over(after=20.0) == "" and one.asked(after=20.0) == ""


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


@pytest.mark.parametrize(
    ("exits", "state"),
    [
        ([{"exit_code": 0}] * 4, JobState.FINISHED),
        ([{"exit_code": 0}] * 3, JobState.ENDED),
        ([{"exit_code": 0}] * 3 + [{}], JobState.ENDED),
        ([{"exit_code": 0}] * 3 + [{"signal": 15}], JobState.DIED),
        ([{"exit_code": 3}], JobState.DIED),
    ],
)
def test_state_of_a_job_that_is_over(exits: list[dict[str, int]], state: JobState) -> None:
    """It finished where each rank is known to have; and died where one is known not to have."""
    one = Watching()
    one.tell(digest([1.0] * 4))
    one.tell(digest([], exited=tuple(ExitedRank(rank=rank, **how) for rank, how in enumerate(exits))), after=5.0)
    one.tell(digest([], exited=tuple(ExitedRank(rank=rank, **how) for rank, how in enumerate(exits))), after=30.0)
    one.over(after=6.0)
    assert one.state is state


def test_open_incident_of_a_job_that_dies_keeps_how() -> None:
    """What its ranks did last is added to it before it is over."""
    one = stood()
    assert one.asked() and one.answer(hung(id="d1")) is None and one.asked(after=6.0)
    first = one.answer(hung(id="d2"))
    assert first is not None
    one.detector.opened(DEMO, "i1", one.now)
    killed(one)
    assert one.over(after=4.0) == ""
    alarm = one.answer(dead())
    assert alarm is not None and alarm.incident.key == first.incident.key and alarm.diagnoses == ("d2", "dead")
    assert one.over(after=2.0) == ""
    one.detector.opened(DEMO, "i1", one.now)
    assert one.over(after=6.0) == "the job has ended"


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
    assert (one.answer(hung(kind=kind, certainty=certainty)) is not None) is suffices


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


def test_incident_is_over_when_ranks_go_on_or_the_job_ends() -> None:
    """Not at a single step, after which all stand again."""
    one = stood()
    one.detector.opened(DEMO, "i1", one.now)
    one.tell(digest([0.5] * 4), after=5.0)
    assert one.over() == ""
    one.tell(digest([25.0] * 4), after=25.0)
    assert one.over(after=5.0) == ""
    one.tell(digest([0.5] * 4), after=5.0)
    assert one.over() == "" and one.over(after=11.0) == "the job goes on"
    ended = stood()
    ended.detector.opened(DEMO, "i1", ended.now)
    ended.tell(NodeDigest())
    assert ended.over() == "" and ended.over(after=6.0) == "the job has ended"
    ended.detector.closed(DEMO, ended.now)
    assert ended.state is JobState.ENDED


def test_false_alarm_makes_the_pause_usual() -> None:
    """A person has said that nothing was wrong: so long a pause is not asked about again."""
    one = stood(100.0)
    one.detector.opened(DEMO, "i1", one.now)
    one.detector.closed(DEMO, one.now, false_alarm=True)
    assert one.detector.check(one.now).learnt[0].usual > 40.0
    one.tell(digest([0.5] * 4), after=10.0)
    one.tell(digest([90.0] * 4), after=90.0)
    assert one.asked() == ""


def test_jobs_that_are_never_asked_about() -> None:
    """One rank waits for nobody; of a silent node nothing is known."""
    alone = Watching()
    alone.tell(digest([500.0], world_size=1))
    assert alone.asked() == ""
    silent = stood(10.0)
    assert silent.asked(after=3000.0) == "" and silent.state is JobState.RUNNING
    assert silent.asked(after=3000.0) == "" and silent.detector.jobs == {}


def test_ranks_without_marks_count_by_what_they_do() -> None:
    """Nobody can read how far they are: only that none of them does anything."""
    one = Watching()
    one.tell(digest([None] * 4, idle=30.0))
    assert one.asked() == ""
    one.tell(digest([None] * 4, idle=61.0), after=31.0)
    assert one.asked() == "no rank has done anything for 61 s"
    busy = Watching()
    busy.tell(digest([None] * 4, idle=0.1))
    assert busy.asked(after=60.0) == ""


def with_signs(told: NodeDigest, *signs: Sign, **columns: object) -> NodeDigest:
    """The same digest, with signs of the node and columns of its job."""
    return told.model_copy(update={"signs": signs, "jobs": (told.jobs[0].model_copy(update=columns),)})


def test_sign_of_the_node_makes_it_look_sooner() -> None:
    """Though the job's pauses are long; not while it goes on, and not for long: what happened is over then."""
    xid = Sign(kind="xid", name="0000:3b:00", age=10.0)
    one = Watching(Detector(usual_pauses={DEMO: 400.0}))
    one.tell(with_signs(digest([1.0] * 4), xid))
    assert one.asked(after=5.0) == ""
    one.tell(with_signs(digest([21.0, 21.0, 1.0, 1.0]), xid), after=15.0)
    assert one.asked() == "node1 reports an Xid (0000:3b:00), and ranks stand still"
    assert one.answer(well()) is None and one.asked(after=5.0) == ""
    late = Watching(Detector(usual_pauses={DEMO: 400.0}))
    late.tell(with_signs(digest([50.0] * 4), xid.model_copy(update={"age": 600.0})))
    assert late.asked() == ""


def test_process_that_ras_declares_dead_makes_it_look_within_usual_pauses() -> None:
    """Once any rank stands still: at the end of a job processes end one after the other."""
    dead = Sign(kind="peer_dead", name="10.0.0.3 pid 4711", age=1.0)
    one = Watching(Detector(usual_pauses={DEMO: 400.0}))
    one.tell(with_signs(digest([1.0] * 4), dead))
    assert one.asked(after=5.0) == ""
    one.tell(with_signs(digest([21.0, 1.0, 1.0, 1.0]), dead), after=15.0)
    assert one.asked().startswith("node1 reports a process that NCCL's RAS has declared dead (10.0.0.3 pid 4711), and ")


def test_gpus_that_spin_make_it_look() -> None:
    """Where nobody can read how far ranks are that is the only sign: NCCL's ranks are never idle while they wait."""
    one = Watching()
    one.tell(with_signs(digest([None] * 4, idle=0.0), spinning=(0, 1, 3)))
    assert one.asked(after=20.0) == ""
    one.tell(with_signs(digest([None] * 4, idle=0.0), spinning=(0, 1, 3)), after=11.0)
    assert one.asked() == "most GPUs have spun in a kernel without computing anything for 31 s"
    few = Watching()
    few.tell(with_signs(digest([None] * 4, idle=0.0), spinning=(0, 1)))
    assert few.asked(after=60.0) == ""
    moving = Watching()
    moving.tell(with_signs(digest([1.0] * 4), spinning=(0, 1, 2, 3)))
    assert moving.asked(after=60.0) == ""


def test_timeout_in_a_log_makes_it_look_at_once() -> None:
    """The watchdog ends the ranks within moments."""
    one = Watching(Detector(usual_pauses={DEMO: 400.0}))
    one.tell(with_signs(digest([12.0] * 4), timed_out=(2,)))
    assert one.asked() == "rank 2 has logged a timeout"


def test_some_ranks_that_stand_while_others_go_on() -> None:
    """Later: helpers of a job may have little to do."""
    one = Watching()
    one.tell(digest([100.0, 100.0, 1.0, 1.0]))
    assert one.asked() == ""
    one.tell(digest([130.0, 130.0, 1.0, 1.0]), after=30.0)
    assert one.asked() == "some ranks have not gone on for 130 s, while others do"


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
