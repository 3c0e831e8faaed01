"""Step 4 for operations whose sizes rightly differ between ranks: they must fit each other instead of being equal.

In an all_to_all what rank i sends to rank j must be what j expects of i; where a record holds one tensor for all
peers, the sums must be equal at least. A gather has one rank that receives and a scatter one that sends: the root,
which recorders show by the tensors it brings and by nothing else.
"""

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from collector.align.groups.table import GroupView
from collector.judge.marks.sides import sides_of
from collector.judge.records.compare_sequences import Mismatch
from collector.judge.tie_breakers.usual_roots import with_usual_root
from shared.plural import ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.trace import Signature

_Sizes = tuple[tuple[int, ...], ...]
_Told = dict[int, Signature]
"""What each member has issued, in group-rank order."""


@dataclass(frozen=True)
class _Exchange:
    """One operation that all members have issued."""

    group: GroupView
    sequence: int
    told: _Told

    def unfit(self, odd: Collection[int], remark: str, *, culprits: Collection[int] = ()) -> Mismatch:
        """Return what does not fit, with those who are odd on a side of their own."""
        sides = [tuple(rank for rank in self.group.members if (rank in odd) is apart) for apart in (False, True)]
        shown = tuple((ranks, self.told[ranks[0]]) for ranks in sorted(filter(None, sides), key=len, reverse=True))
        return Mismatch(self.group, self.sequence, shown, tuple(sorted(culprits)), remarks=(remark,))


def unfit_exchange(group: GroupView) -> Mismatch | None:
    """Return what does not fit in the oldest operation of `group` that all issued and not all completed, or None."""
    pending = {lane.pending[0] for lane in group.lanes.values() if lane.pending}
    if not pending or len(group.lanes) < len(group.order):
        return None
    sequence = min(pending)  # who only sends may be done with it, and wait in the next one
    if any(not lane.at(sequence) for lane in group.lanes.values()):
        return None
    told = {rank: group.parts_at(rank, sequence)[-1] for rank in group.order}
    op, *others = {signature.op for signature in told.values()}
    if others or (op not in _ROOTS and op not in _FITS):
        return None
    exchange = _Exchange(group, sequence, told)
    if op in _FITS:
        return _FITS[op](exchange)
    found = _one_root(exchange, _ROOTS[op](told))
    return None if found is None else with_usual_root(found, _ROOTS[op])


def _lists_fit(exchange: _Exchange) -> Mismatch | None:
    """all_to_all with one tensor for each peer: compare pair by pair."""
    told, order = exchange.told, exchange.group.order
    sent = {rank: [prod(shape) for shape in one.input_sizes] for rank, one in told.items()}
    expected = {rank: [prod(shape) for shape in one.output_sizes] for rank, one in told.items()}
    if any(len(sizes) != len(told) for sizes in (*sent.values(), *expected.values())):
        return None
    wrong = [
        (sender, receiver)
        for i, sender in enumerate(order)
        for j, receiver in enumerate(order)
        if sent[sender][j] != expected[receiver][i]
    ]
    if not wrong:
        return None
    involved = Counter(rank for pair in wrong for rank in {*pair})
    culprit, times = involved.most_common(1)[0]
    alone = times == len(wrong) > 1 and list(involved.values()).count(times) == 1
    sender, receiver = wrong[0]
    remark = (
        f"rank {sender} sends {sent[sender][order.index(receiver)]} elements to rank {receiver}, which expects "
        f"{expected[receiver][order.index(sender)]}"
    )
    return exchange.unfit(involved, remark, culprits=(culprit,) if alone else ())


def _sums_fit(exchange: _Exchange) -> Mismatch | None:
    """all_to_all with one tensor for all peers: what all send together must be what all expect together."""
    sums: dict[tuple[int, int], list[int]] = defaultdict(list)
    for rank, one in exchange.told.items():
        sums[_elements(one.input_sizes), _elements(one.output_sizes)].append(rank)
    sent, expected = (sum(each[end] * len(ranks) for each, ranks in sums.items()) for end in (0, 1))
    if sent == expected:
        return None
    sides = sides_of(sums)
    common, usual = sides.all[0]
    told_apart = len(sides.odd) == 1 and common[0] == common[1]
    remark = f"the ranks send {sent} elements in all and expect {expected}"
    return exchange.unfit({*sides.ranks} - {*usual}, remark, culprits=sides.odd if told_apart else ())


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


def _one_root(exchange: _Exchange, roots: set[int] | None) -> Mismatch | None:
    given = any(_elements((*one.input_sizes, *one.output_sizes)) for one in exchange.told.values())
    if roots is None or len(roots) == 1 or not given:
        return None
    what = f"{ranks_in_words(sorted(roots))} each act as the root" if roots else "no rank acts as the root"
    return exchange.unfit(roots, what)


def _elements(sizes: _Sizes) -> int:
    return sum(prod(size) for size in sizes)


def _as_much_back(exchange: _Exchange) -> Mismatch | None:
    """all_reduce gives back what it takes: whoever expects another size has a call of its own, alone or with all."""
    alike: dict[bool, list[int]] = defaultdict(list)
    for rank, one in exchange.told.items():
        alike[_elements(one.input_sizes) == _elements(one.output_sizes)].append(rank)
    odd = alike[False]
    if not odd or any(not (one.input_sizes and one.output_sizes) for one in exchange.told.values()):
        return None
    right = sides_of(alike)
    remark = f"{ranks_with(odd, 'expects', 'expect')} another size than put in"
    return exchange.unfit(odd, remark, culprits=right.odd if right.all[0][0] else ())


_FITS = {"all_to_all": _lists_fit, "all_to_all_single": _sums_fit, "all_reduce": _as_much_back}
