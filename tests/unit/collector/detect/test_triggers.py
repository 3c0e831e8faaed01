"""Triggers of a look besides that all ranks stand still: signs of nodes, GPUs, logs; and what triggers none."""

from collector.detect.detector import Detector
from shared.answer.incidents import JobState
from shared.wire.registration import NodeDigest, Sign
from tests.build.jobs.watching import DEMO, Watching, digest, stood, well


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
