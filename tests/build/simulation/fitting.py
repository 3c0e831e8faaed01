"""Can calls of several ranks be one operation? All that a library sees counts, roots and splits included."""

from collections.abc import Sequence

from tests.build.simulation.program import Operation, numel


def fitting(sides: Sequence[tuple[int, Operation]]) -> bool:
    """Can these calls, each with its rank, be one operation?"""
    calls = [call for _, call in sides]
    first = calls[0]
    if first.is_p2p:
        return all(numel(call.inputs) == numel(first.inputs) and call.dtype == first.dtype for call in calls)
    if any(call.op != first.op or call.root != first.root or call.dtype != first.dtype for call in calls):
        return False
    if first.op == "all_to_all":
        return _splits_fit(sides)
    return len({(_own(call, call.inputs), _own(call, call.outputs)) for call in calls}) == 1


def _own(call: Operation, shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    """Sizes that must agree on all members: not those of which only the root passes a list."""
    rooted = call.inputs if call.op == "scatter" else call.outputs if call.op == "gather" else None
    return None if rooted is not None and shapes is rooted else numel(shapes)


def _splits_fit(sides: Sequence[tuple[int, Operation]]) -> bool:
    for rank, call in sides:
        for other, theirs in sides:
            assert call.splits is not None and theirs.splits is not None
            to, me = call.team.group_rank(other), call.team.group_rank(rank)
            if call.splits[0][to] != theirs.splits[1][me]:
                return False
    return True
