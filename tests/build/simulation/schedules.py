"""Pipeline schedules: in which order a stage computes, receives and sends the micro-batches of a step."""

from collections.abc import Sequence

from tests.build.simulation.program import Batch, Kernel, Operation, Step, Team, recv, send
from tests.build.simulation.style import Style


def fill_and_drain(pp: Team, rank: int, micro: int, size: int, layer: Sequence[Step], style: Style) -> list[Step]:
    """GPipe: all forward passes, then all backward passes."""
    stage, last = pp.group_rank(rank), pp.size - 1
    steps: list[Step] = []
    for _ in range(micro):
        steps += [_alone(recv(pp, pp.ranks[stage - 1], size, 70), style)] if stage > 0 else []
        steps += [Kernel(0.003), *layer]
        steps += [_alone(send(pp, pp.ranks[stage + 1], size, 71), style)] if stage < last else []
    for _ in range(micro):
        steps += [_alone(recv(pp, pp.ranks[stage + 1], size, 72), style)] if stage < last else []
        steps += [Kernel(0.006), *layer]
        steps += [_alone(send(pp, pp.ranks[stage - 1], size, 73), style)] if stage > 0 else []
    return steps


def _alone(call: Operation, style: Style) -> Operation | Batch:
    return Batch((call,)) if style.batched_p2p and not style.gloo else call


def one_forward_one_backward(
    pp: Team, rank: int, micro: int, size: int, layer: Sequence[Step], style: Style
) -> list[Step]:
    """1F1B: in the steady state a stage sends forward and receives backward in one batch, and the other way round."""
    if style.gloo:
        return fill_and_drain(pp, rank, micro, size, layer, style)
    stage, last = pp.group_rank(rank), pp.size - 1
    warm = min(last - stage, micro)
    before = pp.ranks[stage - 1] if stage > 0 else None
    after = pp.ranks[stage + 1] if stage < last else None
    forward: list[Step] = [Kernel(0.003), *layer]
    backward: list[Step] = [Kernel(0.006), *layer]
    steps: list[Step] = []
    for _ in range(warm):
        steps += [*_batch(_taken(pp, before, size, 70)), *forward, *_batch(_given(pp, after, size, 71))]
    steady = micro - warm
    steps += _batch(_taken(pp, before, size, 70)) if steady else []
    for number in range(steady):
        steps += [*forward, *_batch([*_given(pp, after, size, 71), *_taken(pp, after, size, 72)]), *backward]
        more = _taken(pp, before, size, 70) if number < steady - 1 else []
        steps += _batch([*_given(pp, before, size, 73), *more])
    for _ in range(warm):
        steps += [*_batch(_taken(pp, after, size, 72)), *backward, *_batch(_given(pp, before, size, 73))]
    return steps


def _taken(pp: Team, source: int | None, size: int, line: int) -> list[Operation]:
    return [] if source is None else [recv(pp, source, size, line)]


def _given(pp: Team, to: int | None, size: int, line: int) -> list[Operation]:
    return [] if to is None else [send(pp, to, size, line)]


def _batch(calls: Sequence[Operation]) -> list[Step]:
    return [Batch(tuple(calls))] if calls else []
