"""A node's clock that is an hour off changes nothing in a verdict: times of one node are held against its own times."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.node_clocks import clocks_off
from collector.judge.verdict import diagnose
from shared.answer.checks import CheckId
from shared.answer.diagnosis import Diagnosis, SequenceEvidence
from shared.missing import Missing, Reason
from shared.wire.snapshot import Identity, NodeSnapshot, Process, RankSnapshot
from shared.wire.trace import Trace
from tests.build.jobs.records import Row, trace_of
from tests.build.simulation.looks import LOADER, Watched, looked_at_later
from tests.build.simulation.recorder import Recorder
from tests.build.simulation.run import BEGUN_NS
from tests.build.simulation.scenario import draw, draw_healthy

SEEDS = st.integers(0, 10**9)
OFF = st.sampled_from([-3600, -300, 300, 3600])
BEGAN = 1_700_000_000


_NANOSECONDS = frozenset(
    {"taken_at_ns", "looked_at_ns", "at_ns", "asked_at_ns", "created_ns", "started_ns", "completed_ns"}
)
_SECONDS = frozenset({"started_at", "modified_at", "at", "last_at"})


def skewed(snapshots: Sequence[NodeSnapshot], host: str, seconds: int) -> list[NodeSnapshot]:
    """Move every time that `host` tells by so many seconds, as if its clock had been off all the time."""
    return [
        NodeSnapshot.model_validate(_moved(snapshot.model_dump(), seconds)) if snapshot.host == host else snapshot
        for snapshot in snapshots
    ]


def _moved(value: Any, seconds: int) -> Any:
    if isinstance(value, dict):
        return {key: _at(key, each, seconds) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(each, seconds) for each in value)
    return value


def _at(key: str, value: Any, seconds: int) -> Any:
    if key in _NANOSECONDS and value is not None:
        return _later(value, seconds * 1_000_000_000)
    if key in _SECONDS and isinstance(value, int | float):
        return value + seconds
    return _moved(value, seconds)


def _later(times: Any, by_ns: int) -> Any:
    """Where a time is 0 there is none."""
    if isinstance(times, array | list | tuple):
        return [time + by_ns if time else 0 for time in times]
    return times + by_ns if times else times


def bounded(examples: int) -> settings:
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


def on_time(recorders: Mapping[int, Recorder]) -> dict[int, Recorder]:
    """The simulation's clocks are seconds apart, which is not told from looks that are: here they agree."""
    return {rank: replace(recorder, clock_ns=0) for rank, recorder in recorders.items()}


def gist(answer: Diagnosis) -> object:
    """Everything that a verdict claims."""
    findings = [
        (f.kind, f.culprit_ranks, f.victims, f.certainty, f.cause, f.group, f.op, f.sequence) for f in answer.findings
    ]
    waited = [e.waited_seconds for f in answer.findings for e in f.evidence if isinstance(e, SequenceEvidence)]
    return answer.verdict, answer.state, answer.headline, findings, waited, [c.id for c in answer.checks]


@bounded(20)
@given(SEEDS, OFF, st.randoms(use_true_random=False))
def test_a_hang_is_judged_alike(seed: int, seconds: int, random) -> None:  # type: ignore[no-untyped-def]
    """Whichever node it is, ahead or behind."""
    job = draw(seed)
    unrecorded = frozenset(job.layout.world.ranks) - job.given
    looks = Watched(job.run, job.layout, on_time(job.recorders), unrecorded).looks(looked_at_later(job.run))
    host = random.choice([look.host for look in looks])
    assert gist(diagnose(skewed(looks, host, seconds), Expected())) == gist(diagnose(looks, Expected())), (host, job)


@bounded(15)
@given(SEEDS, OFF, st.booleans(), st.randoms(use_true_random=False))
def test_a_healthy_or_slow_job_is_judged_alike(seed: int, seconds: int, loads: bool, random) -> None:  # type: ignore[no-untyped-def]
    """In the middle of its work."""
    job = draw_healthy(seed)
    watched = Watched(job.run, job.layout, on_time(job.recorders), works_with=LOADER if loads else None)
    first = BEGUN_NS + (job.run.ended_ns - BEGUN_NS) // 2
    looks = watched.looks([first, min(first + 3_000_000_000, job.run.ended_ns)])
    host = random.choice([look.host for look in looks])
    assert gist(diagnose(skewed(looks, host, seconds), Expected())) == gist(diagnose(looks, Expected())), (host, job)


def rank_on(
    host: str, rank: int, *, started: float, looked: float, issued: float | None = None, pid: int | None = None
) -> RankSnapshot:
    """One rank; times by the clock of its node."""
    nothing = Missing(source="test", reason=Reason.NOT_ENABLED)
    recorder: Trace | Missing = nothing
    if issued is not None:
        recorder = _issued(int(issued * 1e9))
    pid = 1000 + rank if pid is None else pid
    return RankSnapshot(
        identity=Identity(job="j", rank=rank, world_size=2, host=host, pid=pid, started_at=started),
        looked_at_ns=int(looked * 1e9),
        process=Process(pid=pid, state="S", started_at=started),
        stacks=nothing,
        fds=nothing,
        logs=nothing,
        recorder=recorder,
    )


def _issued(at_ns: int) -> Trace:
    """One operation that is done."""
    trace = trace_of([Row("0", 1)], {"0": (0, 1)})
    return trace.model_copy(update={"created_ns": array("q", [at_ns])})


def node(*ranks: RankSnapshot) -> NodeSnapshot:
    """The node of these ranks."""
    return NodeSnapshot(host=ranks[0].identity.host, taken_at_ns=ranks[0].looked_at_ns, ranks=ranks)


@pytest.mark.parametrize("ahead", [-3600.0, -60.0, 60.0, 3600.0])
def test_a_rank_whose_clock_is_ahead_was_not_started_anew(ahead: float) -> None:
    """It began with the others, an hour later by its own clock: no check may say that it came after them."""
    first = rank_on("a", 0, started=BEGAN, looked=BEGAN + 900, issued=BEGAN + 5)
    second = rank_on("b", 1, started=BEGAN + ahead, looked=BEGAN + ahead + 900)
    checks = diagnose([node(first), node(second)], Expected()).checks
    assert CheckId.RESTARTED_ALONE not in {check.id for check in checks}


def test_a_rank_that_was_started_anew_is_still_told() -> None:
    """Its node was looked at with the others, by its clock too."""
    first = rank_on("a", 0, started=BEGAN, looked=BEGAN + 900, issued=BEGAN + 5)
    second = rank_on("b", 1, started=BEGAN + 600, looked=BEGAN + 901)
    checks = diagnose([node(first), node(second)], Expected()).checks
    assert CheckId.RESTARTED_ALONE in {check.id for check in checks}


def test_of_two_processes_the_younger_one_is_taken_by_any_clock() -> None:
    """What is left of an earlier start sits on a node whose clock is an hour ahead."""
    old = rank_on("a", 1, started=BEGAN + 3600, looked=BEGAN + 7200, pid=7)
    old_neighbour = rank_on("a", 0, started=BEGAN + 3600, looked=BEGAN + 7200)
    new = rank_on("b", 1, started=BEGAN + 10, looked=BEGAN + 3600, pid=9)
    elsewhere = rank_on("c", 2, started=BEGAN + 10, looked=BEGAN + 3600)
    nodes = [node(old_neighbour, old), node(new), node(elsewhere)]
    for order in (nodes, nodes[::-1]):
        taken = account_for_ranks(order, Expected()).ranks[1].identity
        assert taken is not None
        assert (taken.host, taken.pid) == ("b", 9)


def test_clocks_are_off_where_looks_and_starts_agree_that_they_are() -> None:
    """By the same difference, of more than half a minute."""
    looks = [rank_on(f"n{n}", n, started=BEGAN + n, looked=BEGAN + 500 + n) for n in range(4)]
    ahead = rank_on("odd", 4, started=BEGAN + 60, looked=BEGAN + 560)
    assert clocks_off([*looks, ahead]) == {"odd": 58_000_000_000}
    assert clocks_off(looks) == {}


@pytest.mark.parametrize(
    ("started", "looked"),
    [
        (BEGAN, BEGAN + 500 + 3600),  # looked at an hour later, as by pdsh
        (BEGAN + 400, BEGAN + 500),  # started anew
        (BEGAN + 3000, BEGAN + 500 + 3600),  # both
        (BEGAN + 20, BEGAN + 520),  # seconds
    ],
)
def test_looks_at_other_times_and_starts_at_other_times_are_no_clocks(started: float, looked: float) -> None:
    """Either alone tells nothing about the clock."""
    looks = [rank_on(f"n{n}", n, started=BEGAN, looked=BEGAN + 500) for n in range(3)]
    assert clocks_off([*looks, rank_on("odd", 3, started=started, looked=looked)]) == {}


def test_without_hosts_or_times_no_clock_is_known() -> None:
    """Bare dumps tell neither."""
    nothing = Missing(source="files", reason=Reason.NOT_FOUND)
    bare = RankSnapshot(
        identity=Identity(rank=0), process=nothing, stacks=nothing, fds=nothing, logs=nothing, recorder=nothing
    )
    assert clocks_off([bare, bare]) == {}
    assert clocks_off([]) == {}
