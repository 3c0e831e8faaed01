"""Whose requests wait: of several engines in one job each answers for its own."""

from collections.abc import Sequence

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Act, Kind, Verdict
from shared.missing import Missing, Reason
from shared.wire.snapshot import Child, NodeSnapshot, Process, Requests
from shared.wire.stacks import Frame
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import WORLD, Collective, Job, Seen, Step, live_looks

IDLE = (Frame("worker", "/srv/engine.py", 70), Frame("get", "/usr/lib/python3.11/multiprocessing/queues.py", 103))
UNREAD = Missing(source="stacks", reason=Reason.REFUSED, detail="the process is stopped")


def engines(*, waiting: int, stopped: int) -> Sequence[NodeSnapshot]:
    """Two engines of one rank each: clients wait at `waiting`, and the core of `stopped` is held by a signal."""
    steps: dict[int, list[Step]] = {rank: [Collective(WORLD)] * 3 for rank in range(2)}
    looks = live_looks(Job(steps), {rank: Seen(IDLE) for rank in range(2)})
    for rank in range(2):
        state = "T" if rank == stopped else "S"
        core = Child(process=Process(pid=900 + rank, name="EngineCore", state=state), stacks=UNREAD)
        asked = Requests(unanswered=0, servers=(900 + rank,))
        if rank == waiting:
            asked = asked.model_copy(update={"unanswered": 3, "oldest_seconds": 400.0, "held_by": (900 + rank,)})
        looks = with_rank(looks, rank, above=(core,), requests=asked)
    return looks


@pytest.mark.parametrize("which", [0, 1])
def test_the_engine_that_clients_wait_for_is_named(which: int) -> None:
    """By its process, whichever it is."""
    (finding,) = diagnose(engines(waiting=which, stopped=which), Expected(job="sim")).findings
    assert finding.kind is Kind.REQUESTS_UNANSWERED and f"process {900 + which} " in finding.summary


@pytest.mark.parametrize("which", [0, 1])
def test_an_engine_that_nobody_has_asked_holds_nobody_up(which: int) -> None:
    """It is stopped, and the requests that wait are the other one's."""
    answer = diagnose(engines(waiting=which, stopped=1 - which), Expected(job="sim"))
    assert answer.verdict is not Verdict.HUNG and answer.findings == ()


def test_a_worker_that_is_stopped_is_resumed() -> None:
    """It is a rank, and what frees it is the step, as for the processes above it."""
    looks = engines(waiting=1, stopped=2)
    (process,) = (each.process for each in looks[0].ranks if each.identity.rank == 1)
    assert isinstance(process, Process)
    answer = diagnose(with_rank(looks, 1, process=process.model_copy(update={"state": "T"})), Expected(job="sim"))
    (finding,) = answer.findings
    assert (finding.kind, finding.culprit_ranks) == (Kind.REQUESTS_UNANSWERED, (1,))
    assert [step.command for step in finding.next_steps] == [f"kill -CONT {process.pid}"]
    assert answer.action is not None and answer.action.do is Act.FREE
