"""What a rank may pass that is wrong: another operation, size, type, root or split than the others."""

from dataclasses import replace
from random import Random

from tests.build.simulation.program import Operation, gather, resized, scatter

_OTHER_OPS = {
    "all_reduce": "all_gather_into_tensor",
    "all_gather_into_tensor": "reduce_scatter_tensor",
    "reduce_scatter_tensor": "all_reduce",
    "all_gather": "all_reduce",
    "broadcast": "all_reduce",
    "gather": "broadcast",
    "scatter": "all_reduce",
    "all_to_all": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "barrier": "all_reduce",
}


def other_op(call: Operation, random: Random, rank: int) -> Operation:
    shape = (max(1, call.inputs[0][0] if call.inputs else 1),)
    outputs = (shape[0] * call.team.size,) if _OTHER_OPS[call.op] == "all_gather_into_tensor" else shape
    root = call.team.ranks[0] if _OTHER_OPS[call.op] == "broadcast" else None
    return Operation(_OTHER_OPS[call.op], call.team, (shape,), (outputs,), root=root, line=80)


def other_size(call: Operation, random: Random, rank: int) -> Operation:
    return replace(resized(call, random.choice([1, 2, 16])), line=81)


def other_dtype(call: Operation, random: Random, rank: int) -> Operation:
    return replace(call, dtype="BFloat16", line=82)


def other_root(call: Operation, random: Random, rank: int) -> Operation | None:
    """Either the rank takes itself for the root, or the root takes another for it."""
    root = rank if rank != call.root else random.choice([r for r in call.team.ranks if r != rank])
    if call.op == "broadcast":
        return replace(call, root=root, line=83)
    if call.op == "gather":
        return gather(call.team, call.inputs[0][0], root, rank, line=83)
    return scatter(call.team, call.outputs[0][0], root, rank, line=83)


def other_splits(call: Operation, random: Random, rank: int) -> Operation | None:
    """The rank sends more than the others expect: to one of them, or to all."""
    assert call.splits is not None
    others = [i for i in range(call.team.size) if i != call.team.group_rank(rank)]
    wrong = others if random.random() < 0.5 else [random.choice(others)]
    sends = tuple(n + 3 if i in wrong else n for i, n in enumerate(call.splits[0]))
    inputs = tuple((n, 8) for n in sends) if len(call.inputs) > 1 else ((sum(sends), 8),)
    return replace(call, inputs=inputs, splits=(sends, call.splits[1]), line=84)
