"""Whose native stacks are asked for; and a straggler without a recorder is found whenever the first look came."""

from itertools import accumulate

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from collector.looks.next_looks import MOST_DEEP_LOOKS, further_looks, next_looks, pids_to_look_deeper
from shared.answer.words import Verdict
from shared.missing import Missing, Reason
from shared.wire.snapshot import Identity, NodeSnapshot, Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, Thread
from tests.build.jobs.simulated import USER, Job, Seen, Stay, live_looks

NOTHING = Missing(source="test", reason=Reason.NOT_ENABLED)


def looked_at(rank: int, line: int, *, at: int, native: bool = False) -> RankSnapshot:
    """One look at a rank that C code holds in a line of the user's."""
    pid = 100 + rank
    frames = (
        Frame("main", "/home/ada/train.py", line),
        *([Frame("wait", "libx.so", 0, native=True)] if native else []),
    )
    return RankSnapshot(
        identity=Identity(rank=rank, host="a", pid=pid, started_at=1.0),
        looked_at_ns=at,
        process=Process(pid=pid, state="S", wchan="futex_do_wait", syscall=Syscall(name="futex")),
        stacks=Stacks(
            pid=pid, native=native, frames=frames, threads=(Thread(tid=pid, frames=tuple(range(len(frames)))),)
        ),
        fds=NOTHING,
        logs=NOTHING,
        recorder=NOTHING,
    )


def two_looks(*lines: int) -> list[NodeSnapshot]:
    """Two looks at as many ranks, each in its line."""
    return [
        NodeSnapshot(
            host="a", taken_at_ns=at, ranks=tuple(looked_at(rank, line, at=at) for rank, line in enumerate(lines))
        )
        for at in (1, 2)
    ]


def test_one_of_each_stack_the_odd_ones_first() -> None:
    """Six ranks in two places: two looks, and the lone rank's comes first."""
    assert pids_to_look_deeper(two_looks(7, 7, 7, 9, 7, 7), Expected()) == (("a", 103), ("a", 100))


def test_many_places_are_bounded() -> None:
    """The crowd is left out before any of those that stand alone."""
    asked = pids_to_look_deeper(two_looks(*[1] * 5, *range(10, 10 + MOST_DEEP_LOOKS)), Expected())
    assert len(asked) == MOST_DEEP_LOOKS
    assert ("a", 100) not in asked


def test_what_is_known_is_not_asked_again() -> None:
    """A native stack of one rank stands for all that have its Python stack."""
    deep = NodeSnapshot(host="a", taken_at_ns=3, whole=False, ranks=(looked_at(1, 7, at=3, native=True),))
    assert pids_to_look_deeper([*two_looks(7, 7, 7, 9), deep], Expected()) == (("a", 103),)


def test_a_job_of_which_no_rank_is_seen_has_nobody_to_look_at() -> None:
    """All agents may answer, and each say that it has none."""
    looks = [NodeSnapshot(host=host, taken_at_ns=1) for host in ("a", "b")]
    after = next_looks(looks, Expected(job="j"))
    assert (after.decided, after.closer, after.native) == (False, (), ())


INTERVAL_SECONDS = 3.0
STRAGGLER = 2
SWITCHES = 8
"""How often a rank's main thread waits in a step: a few times in each of its operations."""


def looks_at(times: list[float], step_seconds: float, phase: float) -> list[NodeSnapshot]:
    """Looks that take no time, at a job in which all wait for one rank, and are let go once in each step."""
    seen = {rank: Seen(frames=(USER,)) if rank == STRAGGLER else Seen() for rank in range(4)}
    job = Job({rank: [Stay()] for rank in range(4)})
    looks = []
    for seconds in times:
        (look,) = live_looks(job, seen, recorder=False, looks=1, after_seconds=60.0 + seconds)
        looks.append(_let_go(look, SWITCHES * int(seconds / step_seconds + phase)))
    return looks


def _let_go(look: NodeSnapshot, switches: int) -> NodeSnapshot:
    ranks = []
    for rank in look.ranks:
        assert isinstance(rank.process, Process) and rank.process.after is not None
        beat = rank.process.after.model_copy(update={"main_switches": switches})
        process = rank.process.model_copy(update={"before": beat, "after": beat})
        ranks.append(rank.model_copy(update={"process": process}))
    return look.model_copy(update={"ranks": tuple(ranks)})


@pytest.mark.parametrize("phase", [number / 10 for number in range(10)])
@pytest.mark.parametrize("step_seconds", [0.1, 0.55, 0.8])
def test_a_straggler_is_found_at_any_time_of_its_step(step_seconds: float, phase: float) -> None:
    """Looks in quick succession see the others let go often enough, also where steps take most of a second."""
    first = looks_at([0.0, INTERVAL_SECONDS], step_seconds, phase)
    pauses = further_looks(first, Expected()).pauses
    times = [0.0, *accumulate((INTERVAL_SECONDS, *pauses))]
    diagnosis = diagnose(looks_at(times, step_seconds, phase), Expected())
    assert diagnosis.verdict is Verdict.SLOW
    assert [finding.culprit_ranks for finding in diagnosis.findings] == [(STRAGGLER,)]
