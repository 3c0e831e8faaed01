"""Runs the programs of all ranks: when each operation was issued, started and completed, and who is stuck where.

Every time is worked out once; what a recorder holds at any moment follows from them by comparison. An operation
starts on a rank when it has been issued there and what stands before it in its queue is done; it completes when it
has started on everybody whom it needs and what they pass fits. On NCCL the host goes on after issuing, and one
queue holds all groups (each operation waits for the one before, as PyTorch's default streams make it) or each group
has its own. Gloo blocks its caller, and does not wait for those from whom it needs nothing.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType

from tests.build.simulation.fitting import fitting
from tests.build.simulation.program import (
    Batch,
    Call,
    Crash,
    Kernel,
    Operation,
    Program,
    Stay,
    Synchronise,
    Team,
    Work,
)
from tests.build.simulation.run import BEGUN_NS, Host, Issued, Machine, Pause, Run, Semantics, Worked


@dataclass(eq=False)
class _Rank:
    rank: int
    program: Program
    at: int = 0
    now_ns: int = BEGUN_NS
    host: Host = Host.WAITS
    waits_for: list[Issued] = field(default_factory=list)
    waits_in: Operation | None = None
    pauses: list[Pause] = field(default_factory=list)
    worked: list[Worked] = field(default_factory=list)
    issued: list[Issued] = field(default_factory=list)
    recorded: int = 0
    last_in: dict[object, Issued] = field(default_factory=dict)
    counts: dict[object, int] = field(default_factory=lambda: defaultdict(int))


_Key = tuple[object, ...]
_Side = tuple[Issued, Operation]


def run(
    programs: Mapping[int, Program],
    machine: Machine,
    *,
    random: Random,
    broken: frozenset[tuple[Team, int]] = frozenset(),
    dead_kernels: frozenset[tuple[int, int]] = frozenset(),
    frozen: Mapping[int, Sequence[tuple[int, int]]] = MappingProxyType({}),
) -> Run:
    """Run all programs until nothing can go on.

    `broken`: (group, index of its collective) that never completes, as on a link that is down. `dead_kernels`:
    (rank, index of its operation) that never starts. `frozen`: from when until when, in ns, the machine of a rank
    stands still, with its device and its clock.
    """
    return _Engine(programs, machine, random, broken, dead_kernels, frozen).run()


class _Engine:
    def __init__(
        self,
        programs: Mapping[int, Program],
        machine: Machine,
        random: Random,
        broken: frozenset[tuple[Team, int]],
        dead_kernels: frozenset[tuple[int, int]],
        frozen: Mapping[int, Sequence[tuple[int, int]]],
    ) -> None:
        self.ranks = {rank: _Rank(rank, program) for rank, program in programs.items()}
        self.machine = machine
        self.random = random
        self.broken = broken
        self.dead_kernels = dead_kernels
        self.frozen = frozen
        self.met: dict[_Key, list[_Side]] = defaultdict(list)
        self.spoilt: set[_Key] = set()
        self.todo: deque[_Rank] = deque(self.ranks.values())
        self.starting: deque[Issued] = deque()

    def run(self) -> Run:
        while self.todo:
            self._go_on(self.todo.popleft())
        return Run(
            self.machine,
            {rank: [op for op in mine.issued if not isinstance(op.call, Kernel)] for rank, mine in self.ranks.items()},
            {rank: mine.host for rank, mine in self.ranks.items()},
            {rank: mine.at for rank, mine in self.ranks.items()},
            {rank: mine.program for rank, mine in self.ranks.items()},
            self._waiting(),
            {rank: mine.pauses + self._last_pause(mine) for rank, mine in self.ranks.items()},
            {rank: mine.worked for rank, mine in self.ranks.items()},
        )

    def _later(self, rank: int, from_ns: int, takes_ns: int = 0) -> int:
        """Return when something ends that a rank begins then and that takes so long on a machine that runs."""
        until_ns = from_ns + takes_ns
        for begin_ns, end_ns in self.frozen.get(rank, ()):
            if begin_ns <= until_ns and from_ns < end_ns:
                until_ns += end_ns - max(begin_ns, from_ns)
        return until_ns

    def _last_pause(self, mine: _Rank) -> list[Pause]:
        return [Pause(mine.now_ns, None, mine.waits_in)] if mine.waits_for else []

    def _waiting(self) -> dict[int, frozenset[int]]:
        waiting: dict[int, set[int]] = defaultdict(set)
        for sides in self.met.values():
            come = {op.rank for op, _ in sides}
            for op, part in sides:
                if op.completed_ns is None:
                    waiting[op.rank] |= self._needs(op.rank, part) - come
        return {rank: frozenset(others) for rank, others in waiting.items() if others}

    def _go_on(self, mine: _Rank) -> None:
        """Let one host run until it must wait."""
        while not self._must_wait(mine):
            if mine.at >= len(mine.program):
                mine.host = Host.DONE
                return
            step = mine.program[mine.at]
            if isinstance(step, Stay | Crash):
                mine.host = Host.STAYS if isinstance(step, Stay) else Host.CRASHED
                return
            mine.at += 1
            if isinstance(step, Work):
                from_ns, mine.now_ns = mine.now_ns, self._later(mine.rank, mine.now_ns, int(step.seconds * 1e9))
                mine.worked.append(Worked(step, from_ns, mine.now_ns))
            elif isinstance(step, Synchronise):
                mine.waits_for = [op for op in mine.issued if op.completed_ns is None] or mine.issued[-1:]
            else:
                self._issue(mine, step)
        mine.host = Host.WAITS

    def _must_wait(self, mine: _Rank) -> bool:
        if any(op.completed_ns is None for op in mine.waits_for):
            return True
        if mine.waits_for:
            until_ns = max(mine.now_ns, *(op.completed_ns or 0 for op in mine.waits_for))
            until_ns = self._later(mine.rank, until_ns)
            mine.pauses.append(Pause(mine.now_ns, until_ns, mine.waits_in))
            mine.now_ns, mine.waits_for, mine.waits_in = until_ns, [], None
        return False

    def _issue(self, mine: _Rank, call: Call | Kernel) -> None:
        gloo = self.machine.semantics is Semantics.GLOO
        mine.now_ns = self._later(mine.rank, mine.now_ns, self.random.randrange(20_000, 90_000))
        takes = int(call.seconds * 1e9) if isinstance(call, Kernel) else self.random.randrange(100_000, 900_000)
        op = Issued(mine.rank, call, mine.now_ns, takes)
        if not isinstance(call, Kernel):
            op.never_starts = (mine.rank, mine.recorded) in self.dead_kernels
            mine.recorded += 1
        mine.issued.append(op)
        if isinstance(call, Operation) and (gloo or call.op == "barrier"):
            mine.waits_for, mine.waits_in = [op], call if gloo else None
        queue = self._queue(call)
        before, mine.last_in[queue] = mine.last_in.get(queue), op
        if before is None or before.completed_ns is not None:
            self._start(op, before)
        else:
            before.after = op
        self._drain()

    def _queue(self, call: Call | Kernel) -> object:
        if self.machine.one_queue or isinstance(call, Kernel):
            return None
        if isinstance(call, Operation) and call.is_p2p:
            return (call.team, call.peer)
        return call.team

    def _drain(self) -> None:
        while self.starting:
            op = self.starting.popleft()
            if op.after is not None:
                self._start(op.after, op)

    def _start(self, op: Issued, before: Issued | None) -> None:
        if op.never_starts:
            return
        op.started_ns = self._later(op.rank, max(op.issued_ns, before.completed_ns or 0 if before is not None else 0))
        if isinstance(op.call, Kernel):
            self._complete(op, op.started_ns)
            return
        parts = op.call.parts if isinstance(op.call, Batch) else (op.call,)
        op.parts_left = len(parts)
        for key, part in [(self._key(op.rank, part), part) for part in parts]:
            self.met[key].append((op, part))
            self._settle(key, part)

    def _key(self, rank: int, part: Operation) -> _Key:
        counts = self.ranks[rank].counts
        if not part.is_p2p:
            counts[part.team] += 1
            return (part.team, counts[part.team])
        assert part.peer is not None
        source, target = (rank, part.peer) if part.op == "send" else (part.peer, rank)
        way = (part.team, source, target, part.op)
        counts[way] += 1
        return (part.team, source, target, counts[way])

    def _settle(self, key: _Key, part: Operation) -> None:
        """Complete whatever has all that it needs, now that one more has come."""
        sides = self.met[key]
        if len(key) == 2 and (part.team, key[1]) in self.broken:
            return
        if key in self.spoilt or not fitting([(op.rank, each) for op, each in sides]):
            self.spoilt.add(key)
            return
        come = {op.rank: op.started_ns or 0 for op, _ in sides}
        for op, each in sides:
            needed = self._needs(op.rank, each)
            if needed <= come.keys():
                self._part_done(op, key, max(come[rank] for rank in {*needed, op.rank}))

    def _needs(self, rank: int, part: Operation) -> frozenset[int]:
        """Whose start `part` needs to complete on `rank`."""
        if part.is_p2p:
            assert part.peer is not None
            alone = part.op == "send" and self.machine.eager_sends
            return frozenset() if alone else frozenset({part.peer})
        everybody = part.team.everybody
        if self.machine.semantics is Semantics.NCCL or part.root is None:
            return everybody
        if part.op in ("broadcast", "scatter"):
            return frozenset() if rank == part.root else frozenset({part.root})
        return everybody if rank == part.root else frozenset()

    def _part_done(self, op: Issued, key: _Key, at_ns: int) -> None:
        done = ("done", *key)
        if done in self.ranks[op.rank].counts:
            return
        self.ranks[op.rank].counts[done] = 1
        op.parts_left -= 1
        if op.parts_left == 0:
            self._complete(op, at_ns)

    def _complete(self, op: Issued, at_ns: int) -> None:
        op.completed_ns = self._later(op.rank, max(at_ns, op.started_ns or 0), op.takes_ns)
        self.starting.append(op)
        self.todo.append(self.ranks[op.rank])
