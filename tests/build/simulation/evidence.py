"""What the dumps of a simulated job hold: who has a record of what, and whose records contradict each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tests.build.simulation.layouts import Layout
from tests.build.simulation.program import Team, numel
from tests.build.simulation.recorder import Entry, Recorder, every_entry
from tests.build.simulation.run import Run, Semantics


@dataclass(frozen=True)
class Evidence:
    """What the dumps of a job hold."""

    run: Run
    layout: Layout
    recorders: Mapping[int, Recorder]
    given: frozenset[int]
    """Ranks whose dumps there are."""
    world_told: bool

    def entries(self, rank: int) -> Sequence[Entry]:
        return self._held[rank] if rank in self.given else ()

    def overwritten(self, rank: int) -> bool:
        return len(self._every[rank]) > self.recorders[rank].size

    def issued(self, rank: int, team: Team) -> int:
        """The last sequence that `rank` has really issued on `team`."""
        return max((e.collective_seq for e in self._every[rank] if e.team == team and not e.is_p2p), default=0)

    def progress_known(self, rank: int, team: Team) -> bool:
        holds = any(e.team == team and not e.is_p2p for e in self.entries(rank))
        member_known = self.recorders[rank].membership or team.role == "world" or holds
        return rank in self.given and member_known and (holds or not self.overwritten(rank))

    @property
    def waiting(self) -> dict[int, frozenset[int]]:
        """Who of those who have left dumps waits for whom of them."""
        return {rank: others & self.given for rank, others in self.run.waiting.items() if rank in self.given}

    @property
    def gloo(self) -> bool:
        return self.run.machine.semantics is Semantics.GLOO

    @cached_property
    def _every(self) -> dict[int, list[Entry]]:
        """What each rank's recorder has held, overwritten or not."""
        return {rank: every_entry(self.run, rank, recorder) for rank, recorder in self.recorders.items()}

    @cached_property
    def _held(self) -> dict[int, list[Entry]]:
        return {rank: every[-self.recorders[rank].size :] for rank, every in self._every.items()}


def contradicting(rank: int, team: Team, seen: Evidence) -> int:
    """How many others hold another operation than `rank` at the first sequence of `team` where any does; 0: none."""
    mine = _by_sequence(rank, team, seen)
    theirs = {other: _by_sequence(other, team, seen) for other in team.ranks if other != rank}
    for sequence in sorted(mine):
        others = [facts[sequence] for facts in theirs.values() if sequence in facts]
        if any(facts != mine[sequence] for facts in others):
            return len(others)
    return 0


_Facts = tuple[object, ...]


def _by_sequence(rank: int, team: Team, seen: Evidence) -> dict[int, _Facts]:
    found: dict[int, _Facts] = {}
    for entry in seen.entries(rank):
        if entry.team == team and not entry.is_p2p:
            found[entry.collective_seq] = (*found.get(entry.collective_seq, ()), _facts(entry))
    return found


def _facts(entry: Entry) -> _Facts:
    """What a record shows that must agree: no roots, no splits."""
    inputs = None if entry.op in ("scatter", "all_to_all") else numel(entry.inputs)
    outputs = None if entry.op in ("gather", "all_to_all") else numel(entry.outputs)
    return (entry.op, inputs, outputs, "" if entry.call is None else entry.call.dtype)


def cycle_of(ranks: frozenset[int], waiting: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """Everybody who waits for one of `ranks`, directly or not, and is waited for by it."""
    return frozenset(r for r in _reached(ranks, waiting) if ranks & _reached(frozenset({r}), waiting)) - ranks


def _reached(ranks: frozenset[int], waiting: Mapping[int, frozenset[int]]) -> frozenset[int]:
    reached, frontier = set[int](), list(ranks)
    while frontier:
        for holder in waiting.get(frontier.pop(), frozenset()) - reached:
            reached.add(holder)
            frontier.append(holder)
    return frozenset(reached)
