"""Looks at a simulated job while it runs, or stands still: traces, stacks and beats of every rank at a moment."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from shared.formats.recorder.dump import parse_dump
from shared.missing import Missing, Reason
from shared.wire.snapshot import Beat, Exited, Identity, NodeSnapshot, Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, Thread
from shared.wire.trace import Trace
from tests.build.simulation.dumpfile import dump_of, pickled
from tests.build.simulation.layouts import Layout
from tests.build.simulation.program import Stay
from tests.build.simulation.recorder import Recorder
from tests.build.simulation.run import BEGUN_NS, Host, Pause, Run

PER_NODE = 4
_LIBRARY = "/env/lib/python3.11/site-packages/torch"
_MAIN = Frame("main", "/home/ada/train.py", 12)
_STEP = Frame("train_step", "/home/ada/train.py", 30)
_DEVICE = Frame("synchronize", f"{_LIBRARY}/cuda/__init__.py", 1040)
_WAIT = Frame("c10d::Work::wait", "libtorch_cpu.so", 0, native=True)
LOADER = Frame("_try_get_data", f"{_LIBRARY}/utils/data/dataloader.py", 1310)
_PYTHON_NAMES = {"all_to_all": "all_to_all_single", "all_reduce_coalesced": "all_reduce"}


@dataclass(frozen=True)
class Watched:
    """A job that is looked at: one run with its recorders."""

    run: Run
    layout: Layout
    recorders: dict[int, Recorder]
    unrecorded: frozenset[int] = frozenset()
    """Ranks whose recorder does not answer."""
    attempt: int = 0
    works_with: Frame | None = None
    """What ranks do that wait for nobody; None: they compute."""
    handles: bool = False
    """Do ranks wait by `work.wait()`, which leaves no Python frame but the caller's?"""
    _last_traces: dict[tuple[int, int], Trace] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What recorders hold in the end, by rank and clock: nothing changes it anymore."""

    def looks(self, moments_ns: Sequence[int]) -> list[NodeSnapshot]:
        """One snapshot per node for each moment (by true time)."""
        return [self.look(number, at_ns) for at_ns in moments_ns for number in range(self.nodes)]

    @property
    def nodes(self) -> int:
        return ceil(self.layout.world.size / PER_NODE)

    def look(self, number: int, at_ns: int) -> NodeSnapshot:
        """The snapshot of one node."""
        first = number * PER_NODE
        return self._node(number, self.layout.world.ranks[first : first + PER_NODE], at_ns)

    def deeper(self, at_ns: int) -> list[NodeSnapshot]:
        """The same with native frames, as of the ranks of which the Python stacks do not tell enough."""
        return [
            node.model_copy(
                update={"whole": False, "ranks": tuple(self._with_native(rank, at_ns) for rank in node.ranks)}
            )
            for node in self.looks([at_ns])
        ]

    def _with_native(self, look: RankSnapshot, at_ns: int) -> RankSnapshot:
        pause = self._pause(look.identity.rank, at_ns)
        below = (_WAIT,) if pause is not None and pause.call is not None else ()
        frames = (*self._doing(look.identity.rank, at_ns)[0], *below)
        pid = 1000 + look.identity.rank
        main = Thread(tid=pid, name="MainThread", frames=tuple(range(len(frames))))
        return look.model_copy(update={"stacks": Stacks(pid=pid, native=True, frames=frames, threads=(main,))})

    def _node(self, number: int, ranks: Sequence[int], at_ns: int) -> NodeSnapshot:
        clock_ns = self.recorders[ranks[0]].clock_ns
        here = {rank: self._identity(rank, ranks, f"node-{number}") for rank in ranks}
        ended = [rank for rank in ranks if self._has_ended(rank, at_ns)]
        return NodeSnapshot(
            host=f"node-{number}",
            taken_at_ns=at_ns + clock_ns,
            ranks=tuple(self._rank(mine, at_ns, clock_ns) for rank, mine in here.items() if rank not in ended),
            exited=tuple(
                Exited(pid=1000 + rank, identity=here[rank], exit_code=0)
                for rank in ended
                if self.run.hosts[rank] is Host.DONE
            ),
        )

    def _has_ended(self, rank: int, at_ns: int) -> bool:
        """Has its process crashed, or come to its end? Before the job's last moment nobody's has."""
        ended = self.run.hosts[rank] in (Host.CRASHED, Host.DONE)
        return ended and at_ns > self.run.ended_ns

    def _identity(self, rank: int, together: Sequence[int], host: str) -> Identity:
        return Identity(
            job="sim",
            rank=rank,
            local_rank=rank - together[0],
            world_size=self.layout.world.size,
            local_world_size=len(together),
            attempt=self.attempt,
            host=host,
            pid=1000 + rank,
            started_at=float(self.attempt),
        )

    def _rank(self, identity: Identity, at_ns: int, clock_ns: int) -> RankSnapshot:
        rank, pid = identity.rank, 1000 + identity.rank
        frames, cpu_share = self._doing(rank, at_ns)
        used = cpu_share * (at_ns - BEGUN_NS) / 1e9
        beat = Beat(at_ns=at_ns + clock_ns, cpu_seconds=used, main_cpu_seconds=used, main_switches=0)
        main = Thread(tid=pid, name="MainThread", frames=tuple(range(len(frames))))
        nothing = Missing(source="agent", reason=Reason.NOT_FOUND)
        return RankSnapshot(
            identity=identity,
            looked_at_ns=at_ns + clock_ns,
            process=Process(pid=pid, state="S", syscall=self._syscall(rank, at_ns), before=beat, after=beat),
            stacks=Stacks(pid=pid, frames=frames, threads=(main,)),
            fds=nothing,
            logs=nothing,
            recorder=self._trace(rank, at_ns, clock_ns),
        )

    def _trace(self, rank: int, at_ns: int, clock_ns: int) -> Trace | Missing:
        if rank in self.unrecorded:
            return Missing(source="recorder", reason=Reason.NOT_ENABLED)
        recorder = replace(self.recorders[rank], clock_ns=clock_ns)
        if at_ns < self.run.ended_ns:
            return self._read(rank, recorder, at_ns)
        if (rank, clock_ns) not in self._last_traces:
            self._last_traces[rank, clock_ns] = self._read(rank, recorder, at_ns)
        return self._last_traces[rank, clock_ns]

    def _read(self, rank: int, recorder: Recorder, at_ns: int) -> Trace:
        return parse_dump(pickled(dump_of(self.run, self.layout, rank, recorder, at_ns=at_ns)))

    def _syscall(self, rank: int, at_ns: int) -> Syscall | None:
        """Who waits for others sleeps on a futex, who stays away in user code just sleeps."""
        if self._pause(rank, at_ns) is not None:
            return Syscall(name="futex")
        stays = self.run.hosts[rank] is Host.STAYS and at_ns >= self.run.ended_ns
        return Syscall(name="clock_nanosleep") if stays else None

    def _pause(self, rank: int, at_ns: int) -> Pause | None:
        pauses = self.run.pauses[rank]
        return next((p for p in pauses if p.from_ns <= at_ns and (p.until_ns is None or at_ns < p.until_ns)), None)

    def _doing(self, rank: int, at_ns: int) -> tuple[tuple[Frame, ...], float]:
        """The main thread's stack, outermost first, and its share of a CPU."""
        pause = self._pause(rank, at_ns)
        if pause is not None:
            return _waiting(pause, handles=self.handles), 0.0
        if self.run.hosts[rank] is Host.STAYS and at_ns >= self.run.ended_ns:
            step = self.run.programs[rank][self.run.reached[rank]]
            return (_MAIN, _STEP, *([LOADER] if isinstance(step, Stay) and step.where == "dataloader" else [])), 0.0
        if self.works_with is not None:
            return (_MAIN, _STEP, self.works_with), 0.0
        return (_MAIN, _at_line(_STEP, 31 + at_ns // 1_000_000 % 5)), 0.9


def _waiting(pause: Pause, *, handles: bool) -> tuple[Frame, ...]:
    if pause.call is None:
        return (_MAIN, _STEP, _DEVICE)
    if handles:
        return (_MAIN, _at_line(_STEP, pause.call.line))
    name = _PYTHON_NAMES.get(pause.call.op, pause.call.op)
    called = Frame(name, f"{_LIBRARY}/distributed/distributed_c10d.py", 3252)
    return (_MAIN, _at_line(_STEP, pause.call.line), called)


def _at_line(frame: Frame, line: int) -> Frame:
    return frame._replace(line=line)


def looked_at_later(run: Run, *, seconds: float = 90.0, apart_seconds: float = 3.0) -> tuple[int, int]:
    """Two moments, the first so long after the last thing happened."""
    begun = run.ended_ns + int(seconds * 1e9)
    return begun, begun + int(apart_seconds * 1e9)
