"""Step 4 for operations whose sizes rightly differ between ranks: they must fit each other instead of being equal.

In an all_to_all what rank i sends to rank j must be what j expects of i; where a record holds one tensor for all
peers, the sums must be equal at least. A gather has one rank that receives and a scatter one that sends: the root,
which recorders show by the tensors it brings and by nothing else.
"""

from collections import Counter
from math import prod

from collector.align.groups.process_groups import GroupView
from collector.align.thresholds import is_majority
from collector.judge.records.compare_sequences import Mismatch, signature_at
from collector.judge.tie_breakers.usual_roots import with_usual_root
from shared.plural import ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.trace import Signature, Trace

_Sizes = tuple[tuple[int, ...], ...]
_Told = dict[int, Signature]
"""What each member has issued, in group-rank order."""


def unfit_exchange(group: GroupView, traces: dict[int, Trace]) -> Mismatch | None:
    """Return what does not fit in the oldest operation of `group` that all issued and not all completed, or None."""
    pending = {lane.pending[0] for lane in group.lanes.values() if lane.pending}
    if not pending or len(group.lanes) < len(group.order):
        return None
    sequence = min(pending)  # who only sends may be done with it, and wait in the next one
    if any(not lane.at(sequence) for lane in group.lanes.values()):
        return None
    op = signature_at(group, traces, group.order[0], sequence).op
    if op not in _ROOTS and op not in _FITS:
        return None
    told = {rank: signature_at(group, traces, rank, sequence) for rank in group.order}
    if any(signature.op != op for signature in told.values()):
        return None
    if op in _ROOTS:
        roots = _ROOTS[op]
        found = _one_root(group, sequence, told, roots(told))
        return None if found is None else with_usual_root(found, roots, traces)
    return _FITS[op](group, sequence, told)


def _lists_fit(group: GroupView, sequence: int, told: _Told) -> Mismatch | None:
    """all_to_all with one tensor for each peer: compare pair by pair."""
    size = len(told)
    sent = {rank: [prod(shape) for shape in one.input_sizes] for rank, one in told.items()}
    expected = {rank: [prod(shape) for shape in one.output_sizes] for rank, one in told.items()}
    if any(len(sizes) != size for sizes in (*sent.values(), *expected.values())):
        return None
    wrong = [
        (sender, receiver)
        for i, sender in enumerate(group.order)
        for j, receiver in enumerate(group.order)
        if sent[sender][j] != expected[receiver][i]
    ]
    if not wrong:
        return None
    involved = Counter(rank for pair in wrong for rank in {*pair})
    culprit, times = involved.most_common(1)[0]
    alone = times == len(wrong) > 1 and list(involved.values()).count(times) == 1
    sender, receiver = wrong[0]
    remark = (
        f"rank {sender} sends {sent[sender][group.order.index(receiver)]} elements to rank {receiver}, which expects "
        f"{expected[receiver][group.order.index(sender)]}"
    )
    return _mismatch(group, sequence, told, culprits=(culprit,) if alone else (), odd=set(involved), remark=remark)


def _sums_fit(group: GroupView, sequence: int, told: _Told) -> Mismatch | None:
    """all_to_all with one tensor for all peers: what all send together must be what all expect together."""
    sums = {rank: (_elements(one.input_sizes), _elements(one.output_sizes)) for rank, one in told.items()}
    sent, expected = (sum(each) for each in zip(*sums.values(), strict=True))
    if sent == expected:
        return None
    common, votes = Counter(sums.values()).most_common(1)[0]
    odd = {rank for rank, mine in sums.items() if mine != common}
    told_apart = len(odd) == 1 and votes > 1 and common[0] == common[1]
    remark = f"the ranks send {sent} elements in all and expect {expected}"
    return _mismatch(group, sequence, told, culprits=tuple(odd) if told_apart else (), odd=odd, remark=remark)


def _receivers(told: _Told) -> set[int] | None:
    return _acting({rank: (one.output_sizes, one.input_sizes) for rank, one in told.items()})


def _senders(told: _Told) -> set[int] | None:
    return _acting({rank: (one.input_sizes, one.output_sizes) for rank, one in told.items()})


_ROOTS = {"gather": _receivers, "scatter": _senders}


def _acting(told: dict[int, tuple[_Sizes, _Sizes]]) -> set[int] | None:
    """Who brings a share for every member, beside its own share; None where some bring neither that nor nothing.

    Who has no part in a list may write `[[]]`, which is also the shape of a single number, or repeat its own share.
    """
    shares = {rank: (_elements(brought), _elements(own)) for rank, (brought, own) in told.items()}
    acting = {rank for rank, (brought, own) in shares.items() if brought >= len(told) * own and brought}
    return acting if all(rank in acting or not brought for rank, (brought, _) in shares.items()) else None


def _one_root(group: GroupView, sequence: int, told: _Told, roots: set[int] | None) -> Mismatch | None:
    if (
        roots is None
        or len(roots) == 1
        or not any(_elements((*one.input_sizes, *one.output_sizes)) for one in told.values())
    ):
        return None
    what = f"{ranks_in_words(sorted(roots))} each act as the root" if roots else "no rank acts as the root"
    return _mismatch(group, sequence, told, culprits=(), odd=roots, remark=what)


def _mismatch(
    group: GroupView, sequence: int, told: _Told, *, culprits: tuple[int, ...], odd: set[int], remark: str
) -> Mismatch:
    sides = [tuple(rank for rank in group.members if (rank in odd) is apart) for apart in (False, True)]
    shown = tuple((ranks, told[ranks[0]]) for ranks in sorted(filter(None, sides), key=len, reverse=True))
    return Mismatch(group, sequence, shown, culprits, remarks=(remark,))


def _elements(sizes: _Sizes) -> int:
    return sum(prod(size) for size in sizes)


def _as_much_back(group: GroupView, sequence: int, told: _Told) -> Mismatch | None:
    """all_reduce gives back what it takes: whoever expects another size has a call of its own, alone or with all."""
    odd = {rank for rank, one in told.items() if _elements(one.input_sizes) != _elements(one.output_sizes)}
    if not odd or any(not (one.input_sizes and one.output_sizes) for one in told.values()):
        return None
    culprits = tuple(sorted(odd)) if is_majority(len(told) - len(odd), len(told)) else ()
    remark = f"{ranks_with(odd, 'expects', 'expect')} another size than put in"
    return _mismatch(group, sequence, told, culprits=culprits, odd=odd, remark=remark)


_FITS = {"all_to_all": _lists_fit, "all_to_all_single": _sums_fit, "all_reduce": _as_much_back}
