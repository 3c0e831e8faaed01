"""Step 6, deadlocks: whose program differs from that of its peers, where no single operation does.

A rank that skips a call, makes one too many, or takes two groups in another order ends in a circle of waits in which
every record looks right. What tells it from the others is the order of its calls over all groups. It is compared
with its peers: the ranks that share groups with it, directly or through others, stages of a pipeline apart. Groups
are compared by role, `tp0` with `tp1`, so that every peer may vote; what a ring buffer has overwritten is left out.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from collector.align.groups.process_groups import role_of
from collector.align.groups.signature_rules import Facts, facts_of
from collector.align.groups.table import GroupView
from collector.align.thresholds import LEAST_AGREEING, LEAST_VOTES, is_majority
from shared.wire.trace import Trace

_MOST_ASKED = 64
"""A stray is alone: where more ranks than this each made calls of their own, nothing is usual."""

_MOST_COUNTED = 512
"""Ranks whose calls are tallied, the lowest first: enough to tell what is usual."""

_P2P = "p2p"
_Call = tuple[str, int, Facts | str]
"""Role of the group, sequence, and what was called; point-to-point calls have sequence 0."""


@dataclass(frozen=True)
class Stray:
    """A rank that alone went another way than its peers, who had all come the same way up to there."""

    rank: int
    called: str
    peers: tuple[int, ...]
    """Those who went the common way."""
    peers_called: str

    def __str__(self) -> str:
        return f"rank {self.rank} called {self.called} where {len(self.peers)} of its peers called {self.peers_called}"


@dataclass(frozen=True)
class CallOrders:
    """The calls of every rank, in the order in which it made them."""

    groups: tuple[GroupView, ...]
    traces: dict[int, Trace]

    def strays(self, ranks: Collection[int]) -> tuple[Stray, ...]:
        """Return those of `ranks` whose program alone differs from that of their peers."""
        alone = [rank for rank in sorted(ranks) if rank in self._calls and len(self._alike[rank]) == 1]
        found = [stray for stray in map(self._stray, alone[:_MOST_ASKED]) if stray is not None]
        return tuple(found or (stray for stray in map(self._miscounted, alone[:_MOST_ASKED]) if stray is not None))

    def _miscounted(self, rank: int) -> Stray | None:
        partners = {
            role: [member for member in group.members if member != rank]
            for group, role in self._by_role
            if rank in group.lanes
        }
        if rank not in self._tallies:
            return None
        odd = odd_tally(rank, self._tallies, partners)
        return None if odd is None else Stray(rank, odd[0], odd[2], odd[1])

    def _stray(self, rank: int) -> Stray | None:
        mine, theirs = self._aligned(rank, self._families.get(rank, ()))
        for at, call in enumerate(mine):
            choices: Counter[_Call] = Counter()
            for peer, calls in theirs.items():
                if at < len(calls):
                    choices[calls[at]] += len(self._alike[peer])
            if choices and call not in choices:
                return self._decided(rank, call, choices, [p for p, calls in theirs.items() if at < len(calls)])
            theirs = {peer: calls for peer, calls in theirs.items() if at >= len(calls) or calls[at] == call}
        return None

    def _decided(self, rank: int, call: _Call, choices: "Counter[_Call]", peers: list[int]) -> Stray | None:
        """All peers must agree, and both calls must be such as either side could make."""
        (common, votes), *others = choices.most_common()
        shared = self._roles[rank].intersection(*(self._roles[peer] for peer in peers))
        comparable = {call[0], common[0]} - {_P2P} <= shared
        if others or votes < LEAST_AGREEING or not comparable:
            return None
        agreeing = tuple(sorted(rank for peer in peers for rank in self._alike[peer]))
        return Stray(rank, _in_words(call), agreeing, _in_words(common))

    def _aligned(self, rank: int, peers: Iterable[int]) -> tuple[list[_Call], dict[int, list[_Call]]]:
        """The calls of `rank`, and of one of each sort of peers, from the first one on that most of them still hold."""
        mine = self._calls[rank]
        theirs = {min(self._alike[peer]): self._calls[peer] for peer in peers if peer != rank and peer in self._calls}
        cut = any(self.traces[each].truncated for each in (rank, *theirs))
        if not cut and all(calls[:1] == mine[:1] for calls in theirs.values()):
            return mine, theirs
        held = {peer: {call: at for at, call in enumerate(calls) if call[1]} for peer, calls in theirs.items()}
        for at, call in enumerate(mine):
            holding = [peer for peer in held if call in held[peer]]
            if call[1] and is_majority(len(holding), len(held)):
                return mine[at:], {peer: theirs[peer][held[peer][call] :] for peer in holding}
        return [], {}

    @cached_property
    def _tallies(self) -> dict[int, dict[tuple[str, int], dict[str, int]]]:
        return {rank: tallies(calls) for rank, calls in list(self._calls.items())[:_MOST_COUNTED]}

    @cached_property
    def _alike(self) -> dict[int, tuple[int, ...]]:
        """For each rank all of its family with groups of the same roles and the same calls, itself included."""
        classes: dict[object, list[int]] = defaultdict(list)
        for rank, calls in self._calls.items():
            classes[self._families.get(rank, (-1,))[0], self._roles[rank], tuple(calls)].append(rank)
        return {rank: tuple(sorted(ranks)) for ranks in classes.values() for rank in ranks}

    @cached_property
    def _by_role(self) -> list[tuple[GroupView, str]]:
        return [(group, role_of(group, self.groups)) for group in self.groups]

    @cached_property
    def _roles(self) -> dict[int, frozenset[str]]:
        """The roles of the groups that each rank is a member of."""
        roles: dict[int, set[str]] = defaultdict(set)
        for group, role in self._by_role:
            for rank in group.members:
                roles[rank].add(role)
        return {rank: frozenset(mine) for rank, mine in roles.items()}

    @cached_property
    def _calls(self) -> dict[int, list[_Call]]:
        at: dict[int, dict[int, _Call]] = defaultdict(dict)
        facts: dict[int, list[Facts]] = {}
        for group, role in self._by_role:
            for rank, lane in group.lanes.items():
                trace = self.traces[rank]
                known = facts.get(rank) or facts.setdefault(rank, [facts_of(one) for one in trace.signatures])
                for sequence, position in zip(lane.sequences, lane.positions, strict=True):
                    if position < trace.whole_from:
                        continue  # others were issued between it and the next one
                    at[rank][position] = (role, sequence, known[trace.signature[position]])
        for rank, trace in self.traces.items():
            for position in (p for p in _p2p_positions(trace) if p >= trace.whole_from):
                at[rank][position] = (_P2P, 0, trace.signatures[trace.signature[position]].op)
        return {rank: [calls[position] for position in sorted(calls)] for rank, calls in at.items()}

    @cached_property
    def _families(self) -> dict[int, tuple[int, ...]]:
        """Ranks joined by groups; where tensors are passed on, not by those groups nor by the whole job's."""
        family: dict[int, set[int]] = {}
        for group in self.groups:
            if self._p2p_groups and (len(group.members) >= len(self.traces) or self._passes_on(group)):
                continue
            joined = set(group.members).union(*(family[rank] for rank in group.members if rank in family))
            for rank in joined:
                family[rank] = joined
        return {rank: tuple(sorted(joined)) for rank, joined in family.items()}

    def _passes_on(self, group: GroupView) -> bool:
        return any((rank, group.name, group.description) in self._p2p_groups for rank in group.members)

    @cached_property
    def _p2p_groups(self) -> frozenset[tuple[int, str, str]]:
        """(rank, name and description of a group) over which the rank sends or receives."""
        used = (
            (rank, trace.groups[index])
            for rank, trace in self.traces.items()
            for index in {trace.group[position] for position in _p2p_positions(trace)}
        )
        return frozenset((rank, group.name, group.description) for rank, group in used)


def _p2p_positions(trace: Trace) -> Iterable[int]:
    if not any(trace.is_p2p):
        return ()
    return (
        at for at, p2p in enumerate(trace.is_p2p) if p2p and trace.signatures[trace.signature[at]].source is not None
    )


def _in_words(call: _Call) -> str:
    role, sequence, what = call
    if isinstance(what, str):
        return what
    return f"{what[0]} #{sequence} of group {role}"


_Called = tuple[str, int, object]
"""(role of the group, sequence, what); sequence 0 where calls are not numbered alike on all ranks."""
_Tally = dict[str, int]
"""The last sequence of each role."""


def tallies(calls: Sequence[_Called]) -> dict[tuple[str, int], _Tally]:
    """For each numbered call of one rank, as a landmark: which number each other role has come to before it."""
    last: _Tally = {}
    at: dict[tuple[str, int], _Tally] = {}
    for role, sequence, _ in calls:
        if sequence:
            at.setdefault((role, sequence), {other: number for other, number in last.items() if other != role})
            last[role] = sequence
    return at


def odd_tally(
    rank: int, at: Mapping[int, Mapping[tuple[str, int], _Tally]], partners: Mapping[str, Collection[int]]
) -> tuple[str, str, tuple[int, ...]] | None:
    """Return (what `rank` had called, what the others had, who they are) at the first landmark that tells it apart.

    `partners`: by role, the other members of the group that `rank` plays the role in; one of them must disagree.
    """
    for (role, sequence), mine in at[rank].items():
        for other, number in mine.items():
            theirs = {
                voter: tally[role, sequence][other]
                for voter, tally in at.items()
                if voter != rank and other in tally.get((role, sequence), {})
            }
            agreed = set(theirs.values())
            if len(agreed) != 1 or number in agreed or len(theirs) < LEAST_VOTES:
                continue
            if set(partners.get(other, ())) & theirs.keys():
                before = f"before #{sequence} of group {role}"
                return f"#{number} of group {other} last {before}", f"#{agreed.pop()} of it", tuple(sorted(theirs))
    return None
