"""A straggler keeps the others waiting again and again; a network that has held a rank up once makes none of it."""

from array import array
from collections.abc import Callable, Sequence

import pytest

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.groups.process_groups import line_up
from collector.judge.slow.straggler import Straggler, find_straggler
from shared.wire.snapshot import NodeSnapshot
from shared.wire.trace import State, Trace
from tests.build.jobs.dumps import bare_rank
from tests.build.jobs.records import BEGUN_NS, Row, trace_of

RANKS = range(4)
STEPS = 12


def found(
    late: Callable[[int, int], float], step_seconds: Callable[[int], float], barrier_every: int = STEPS + 1
) -> Straggler | None:
    """Who is the straggler, where rank r comes to step s `late(r, s)` seconds after the first? Gloo tells no ends."""
    begun = [sum(map(step_seconds, range(step))) for step in range(STEPS)]
    ops = ["all_reduce" if (step + 1) % barrier_every else "barrier" for step in range(STEPS)]
    return among({rank: _trace([begun[step] + late(rank, step) for step in range(STEPS)], ops) for rank in RANKS})


def among(traces: dict[int, Trace], nodes: Sequence[str] = ("node",) * len(RANKS)) -> Straggler | None:
    """Who of these is the straggler?"""
    snapshots = [NodeSnapshot(live=False, ranks=(bare_rank(rank, trace),)) for rank, trace in traces.items()]
    return find_straggler(
        line_up(account_for_ranks(snapshots, Expected())), traces, dict(zip(RANKS, nodes, strict=True))
    )


def on_devices(*, takes_seconds: float) -> dict[int, Trace]:
    """Ranks that run ahead of their devices on NCCL, but for rank 2, each of whose operations takes so long."""
    ahead = [Row("0", sequence, state=State.ISSUED) for sequence in range(STEPS, 3 * STEPS)]
    issued = {"created_ns": array("q", [BEGUN_NS + int(0.4e9 * step) for step in range(2 * STEPS)])}
    pending = trace_of(ahead, {"0": RANKS}).model_copy(update=issued)
    done = trace_of([Row("0", sequence) for sequence in range(1, STEPS)], {"0": RANKS})
    times = [BEGUN_NS + int(0.4e9 * step) for step in range(STEPS + 1, 2 * STEPS)]
    completed = array("q", [at + int(takes_seconds * 1e9) for at in times])
    late = done.model_copy(update={"created_ns": array("q", times), "completed_ns": completed})
    return {rank: late if rank == 2 else pending for rank in RANKS}


def test_a_rank_that_alone_has_nothing_left_to_run() -> None:
    """The devices of the others wait for what it launches; one that waits for its own each time is as fast as all."""
    straggler = among(on_devices(takes_seconds=0.12))
    assert straggler is not None
    assert (straggler.rank, round(straggler.lag_seconds, 2)) == (2, 0.38)
    assert among(on_devices(takes_seconds=0.35)) is None


def _trace(arrivals: list[float], ops: list[str]) -> Trace:
    rows = [Row("0", sequence, op=op, backend="gloo") for sequence, op in enumerate(ops, 1)]
    created = array("q", [BEGUN_NS + int(at * 1e9) for at in arrivals])
    never = array("q", [0] * STEPS)
    return trace_of(rows, {"0": RANKS}).model_copy(update={"created_ns": created, "completed_ns": never})


def test_a_rank_that_is_late_in_every_step() -> None:
    """The others wait for it for most of each."""
    straggler = found(lambda rank, step: 0.45 if rank == 3 else 0.0, lambda step: 0.5)
    assert straggler is not None
    assert (straggler.rank, round(straggler.lag_seconds, 2)) == (3, 0.45)


@pytest.mark.parametrize("seconds", [0.5, 6.0])
@pytest.mark.parametrize("late", RANKS)
@pytest.mark.parametrize("ahead", [-5.0, -0.3, 0.0, 0.3, 5.0])
def test_a_late_rank_of_two_nodes_is_found_by_clocks_that_agree(ahead: float, late: int, seconds: float) -> None:
    """By others it may be missed; no other rank is named."""

    def came(rank: int, step: int) -> float:
        return seconds * step + (0.9 * seconds if rank == late else 0.0) + (ahead if rank > 1 else 0.0)

    ops = ["all_reduce"] * STEPS
    traces = {rank: _trace([came(rank, step) for step in range(STEPS)], ops) for rank in RANKS}
    straggler = among(traces, ("a", "a", "b", "b"))
    assert straggler is None or straggler.rank == late
    assert straggler is not None or ahead


def test_a_rank_that_was_very_late_once_and_is_a_little_late_each_time() -> None:
    """The steps are long for another reason, such as a slow network, and the one long wait is no habit."""
    straggler = found(
        lambda rank, step: (60.0 if step == 5 else 0.15) if rank == 3 else 0.0, lambda step: 66.0 if step == 5 else 6.0
    )
    assert straggler is None


def test_ranks_that_are_late_in_turns() -> None:
    """Nobody is it."""
    assert found(lambda rank, step: 0.45 if rank == step % 4 else 0.0, lambda step: 0.5) is None


def test_a_rank_that_alone_saves_a_checkpoint_again_and_again() -> None:
    """The others wait for it in a barrier, most of the time; its steps are as short as theirs."""

    def late(rank: int, step: int) -> float:
        return 10.0 if rank == 0 and (step + 1) % 3 == 0 else 0.0

    def seconds(step: int) -> float:
        return 10.1 if (step + 1) % 3 == 0 else 0.1

    assert found(late, seconds, barrier_every=3) is None
    straggler = found(late, seconds)  # the same without barriers: it is late with its share of the work
    assert straggler is not None and straggler.rank == 0


def test_a_rank_that_is_late_at_the_barrier_of_every_step() -> None:
    """A loop that measures its steps has them begin together."""

    def late(rank: int, step: int) -> float:
        return 0.45 if rank == 3 and step % 2 else 0.0

    straggler = found(late, lambda step: 0.5 if step % 2 else 0.01, barrier_every=2)
    assert straggler is not None and straggler.rank == 3


def test_records_that_tell_when_operations_ended_and_not_when_they_began() -> None:
    """Whoever wrote them: nobody is late by them, and nothing breaks."""
    ended = _trace([0.5 * step for step in range(STEPS)], ["all_reduce"] * STEPS)
    trace = ended.model_copy(update={"created_ns": ended.completed_ns, "completed_ns": ended.created_ns})
    snapshots = [NodeSnapshot(live=False, ranks=(bare_rank(rank, trace),)) for rank in RANKS]
    groups = line_up(account_for_ranks(snapshots, Expected()))
    assert find_straggler(groups, dict.fromkeys(RANKS, trace), dict.fromkeys(RANKS, "node")) is None
