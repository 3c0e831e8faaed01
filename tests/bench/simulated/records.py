"""Flight records of the simulated job, NCCL's conventions: a window of finished operations per group, and what hangs.

A step takes four seconds: forward and backward through the layers with an all_reduce over the tensor group for each
part of a layer, activations and gradients passed along the pipeline in two batches, then the optimizer's reductions.
What all ranks of one role and stage share is worked out once; times are each rank's own.
"""

import random
from array import array
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from shared.wire.stacks import Frame
from shared.wire.trace import Mark, Signature, State, Trace
from tests.bench.simulated import places
from tests.bench.simulated.job import STAGES, Role, SimulatedJob

WINDOW = 64
STEP_SECONDS = 4.0
STEPS = 2310
"""Finished before the step that hangs."""

_JITTER_BITS = 22
"""Ranks are up to four milliseconds apart."""
_SHARED = ("group", "signature", "call_site", "collective_seq", "p2p_seq", "op_id", "is_p2p", "state")


class Lane(IntEnum):
    """Operations that count together: an index into `SimulatedJob.groups`."""

    WORLD = 0
    TENSOR = 1
    DATA = 2
    PIPELINE = 3
    MODEL = 4
    EMBEDDING = 5


class Call(NamedTuple):
    """One operation of a step: when, on which group, what, and from where."""

    at: float
    lane: Lane
    signature: Signature
    site: tuple[Frame, ...]


class _Outline(NamedTuple):
    """What the traces of all ranks of one role in one stage have in common."""

    signatures: tuple[Signature, ...]
    call_sites: tuple[tuple[Frame, ...], ...]
    marks: tuple[Mark, ...]
    columns: dict[str, "array[int]"]
    created: tuple[int, ...]
    """Nanoseconds after the begin of the step that hangs, mostly before it."""


def trace_of(job: SimulatedJob, rank: int, *, stopped_ns: int, look: int) -> Trace:
    """The record of a rank; `stopped_ns` is when the last step began, `look` how many steps it has moved since."""
    outline = _outline(job.role(rank), job.stage(rank), look if job.moving else 0)
    bits = random.Random(rank).getrandbits
    begun = stopped_ns + round(look * STEP_SECONDS * 1e9) if job.moving else stopped_ns
    created = [begun + at + bits(_JITTER_BITS) for at in outline.created]
    completed = [
        at + 60_000_000 + bits(_JITTER_BITS + 4) if state == State.COMPLETED else 0
        for at, state in zip(created, outline.columns["state"], strict=True)
    ]
    return Trace(
        version="2.10",
        library="2.27.5",
        truncated=True,
        groups=job.groups(rank),
        signatures=outline.signatures,
        call_sites=outline.call_sites,
        marks=outline.marks,
        **outline.columns,
        created_ns=array("q", created),
        started_ns=array("q", bytes(8 * len(created))),  # known only with TORCH_NCCL_ENABLE_TIMING
        completed_ns=array("q", completed),
    )


@lru_cache(maxsize=64)
def _outline(role: Role, stage: int, look: int) -> _Outline:
    rows = sorted(_rows(role, stage, look), key=lambda row: row.at)
    signatures = list(dict.fromkeys(row.call.signature for row in rows))
    sites: list[tuple[Frame, ...]] = [(), *dict.fromkeys(row.call.site for row in rows)]
    table = [
        (
            row.call.lane,
            signatures.index(row.call.signature),
            sites.index(row.call.site),
            0 if row.is_p2p else row.sequence,
            row.sequence if row.is_p2p else 0,
            row.sequence,
            row.is_p2p,
            State.COMPLETED if row.completed else State.ISSUED,
        )
        for row in rows
    ]
    columns = {name: array("q", column) for name, column in zip(_SHARED, zip(*table, strict=True), strict=True)}
    created = tuple(round(row.at * 1e9) for row in rows)
    return _Outline(tuple(signatures), tuple(sites), _marks(rows), columns, created)


class _Row(NamedTuple):
    at: float
    sequence: int
    completed: bool
    is_p2p: bool
    call: Call


def _rows(role: Role, stage: int, look: int) -> Iterator[_Row]:
    """Each lane's last finished operations, and those that are in flight."""
    step = step_of(stage)
    for lane in Lane:
        calls = [call for call in step if call.lane is lane]
        if not calls:
            continue
        issued = _issued(role, calls)
        finished = issued - _in_flight(role, lane, calls)
        last = (STEPS + look) * len(calls)
        for number in range(last + finished - WINDOW, last + issued):
            back, at = divmod(number, len(calls))
            call = calls[at]
            when = call.at + (back - STEPS - look) * STEP_SECONDS
            yield _Row(when, number + 1, number < last + finished, lane is Lane.PIPELINE, call)


_REACHED = {Role.CULPRIT: 2.8, Role.PEER: 2.85, Role.MATE: 3.05, Role.OTHER: 3.25, Role.MOVING: 0.7}
"""How many seconds of the last step a rank has gone through: operations before it are issued."""


def _issued(role: Role, calls: list[Call]) -> int:
    return sum(call.at < _REACHED[role] for call in calls)


def _in_flight(role: Role, lane: Lane, calls: list[Call]) -> int:
    """How many of those issued in the last step have not completed."""
    waits_in = {Role.PEER: Lane.TENSOR, Role.MATE: Lane.DATA, Role.OTHER: Lane.WORLD, Role.MOVING: Lane.TENSOR}
    if waits_in.get(role) is not lane:
        return 0
    return _issued(role, calls) if role in (Role.MATE, Role.OTHER) else 1


@lru_cache(maxsize=STAGES)
def step_of(stage: int) -> tuple[Call, ...]:
    """What a rank of a stage does in one step."""
    return tuple(sorted((*_layers(), *_passing(stage), *_optimizer(stage)), key=lambda call: call.at))


def _layers() -> Iterator[Call]:
    activations = Signature("all_reduce", "nccl", ((4096, 1, 8192),), ("BFloat16",), ((4096, 1, 8192),), ("BFloat16",))
    for number in range(4):
        for half in range(2):
            at = 0.1 + 0.25 * number + 0.12 * half
            yield Call(at, Lane.TENSOR, activations, places.in_step("forward", 512 + 40 * half))
            yield Call(at + 1.3, Lane.TENSOR, activations, places.backward(440 + 73 * half))


def _passing(stage: int) -> Iterator[Call]:
    for batch in range(2):
        at = 0.5 * batch
        if stage > 0:
            yield _pass("recv", stage - 1, stage, 0.02 + at, 540)
            yield _pass("send", stage, stage - 1, 1.95 + at, 602)
        if stage < STAGES - 1:
            yield _pass("send", stage, stage + 1, 0.45 + at, 561)
            yield _pass("recv", stage + 1, stage, 1.25 + at, 583)


def _pass(op: str, source: int, target: int, at: float, line: int) -> Call:
    size, dtype = ((4096, 1, 8192),), ("BFloat16",)
    signature = Signature(op, "nccl", size, dtype, size, dtype, source, target)
    return Call(at, Lane.PIPELINE, signature, places.in_step("pair", line, op))


def _optimizer(stage: int) -> Iterator[Call]:
    one = Signature("all_reduce", "nccl", ((1,),), ("Float",), ((1,),), ("Float",))
    if stage in (0, STAGES - 1):
        weight = ((50_304 // 8, 8192),)
        embedding = Signature("all_reduce", "nccl", weight, ("Float",), weight, ("Float",))
        yield Call(2.7, Lane.EMBEDDING, embedding, places.in_step("norm", 410, "embeddings"))
    yield Call(2.8, Lane.TENSOR, one, places.in_step("exhausted"))
    for bucket in range(4):
        whole, shard = ((1 << 26, bucket + 1),), ((1 << 20, bucket + 1),)
        reduce = Signature("reduce_scatter_tensor", "nccl", whole, ("Float",), shard, ("Float",))
        gather = Signature("all_gather_into_tensor", "nccl", shard, ("BFloat16",), whole, ("BFloat16",))
        yield Call(2.9 + 0.03 * bucket, Lane.DATA, reduce, places.in_step("gradients"))
        yield Call(3.4 + 0.03 * bucket, Lane.DATA, gather, places.in_step("parameters"))
    yield Call(3.2, Lane.WORLD, one, places.in_step("norm", 480, "prepare_grads"))
    yield Call(3.3, Lane.MODEL, one, places.in_step("norm", 571, "clip_grad_norm"))


def _marks(rows: list[_Row]) -> tuple[Mark, ...]:
    made = []
    for lane in Lane:
        collectives = [row for row in rows if row.call.lane is lane and not row.is_p2p]
        if collectives:
            issued = max(row.sequence for row in collectives)
            completed = max(row.sequence for row in collectives if row.completed)
            made.append(Mark(group=lane, issued=issued, started=completed, completed=completed))
    return tuple(made)
