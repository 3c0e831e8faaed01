"""A job with a fault, drawn from one number: the same number gives the same job, dumps and truth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

from collector.align.expected import Expected
from shared.formats.recorder.dump import parse_dump
from shared.wire.snapshot import NodeSnapshot
from shared.wire.trace import Trace
from tests.build.jobs.dumps import bare_rank, dumped_twice
from tests.build.simulation.dumpfile import as_json, dump_of, pickled
from tests.build.simulation.engine import run
from tests.build.simulation.evidence import Evidence
from tests.build.simulation.faults import FAULTS, Injected, inject
from tests.build.simulation.layouts import Layout, draw_layout
from tests.build.simulation.program import Work
from tests.build.simulation.recorder import Recorder
from tests.build.simulation.run import Machine, Run, Semantics
from tests.build.simulation.style import Style
from tests.build.simulation.truth import Truth, truth_of

_TRIES = 200


@dataclass(frozen=True)
class Scenario:
    """One simulated job that hangs, and what is left of it."""

    seed: int
    style: Style
    layout: Layout
    injected: Injected
    run: Run
    recorders: dict[int, Recorder]
    given: frozenset[int]
    world_told: bool

    @property
    def semantics(self) -> Semantics:
        return self.run.machine.semantics

    @cached_property
    def truth(self) -> Truth:
        return truth_of(self.injected, Evidence(self.run, self.layout, self.recorders, self.given, self.world_told))

    @property
    def expected(self) -> Expected:
        return Expected(world_size=self.layout.world.size if self.world_told else None)

    @cached_property
    def files(self) -> dict[int, bytes]:
        """Each rank's dump as a file: a pickle where there are frames, else JSON."""
        dumps = {r: dump_of(self.run, self.layout, r, self.recorders[r]) for r in sorted(self.given)}
        return {r: pickled(dump) if self.recorders[r].frames else as_json(dump) for r, dump in dumps.items()}

    @cached_property
    def dumps(self) -> list[NodeSnapshot]:
        """Bare dumps, one snapshot each; of Gloo, which has no watchdog to write them, two of each rank."""
        traces = {rank: parse_dump(data) for rank, data in self.files.items()}
        if self.semantics is Semantics.GLOO:
            return [dumped_twice(rank, trace, ended_ns=self.run.ended_ns) for rank, trace in traces.items()]
        return [NodeSnapshot(live=False, ranks=(bare_rank(rank, trace),)) for rank, trace in traces.items()]

    def __str__(self) -> str:
        machine = self.run.machine
        queues = "one queue" if machine.one_queue else "own queues"
        how = f"{machine.semantics}, {queues}, {'eager' if machine.eager_sends else 'synchronous'} sends"
        sizes = sorted({recorder.size for recorder in self.recorders.values()})
        lost = sorted(set(self.layout.world.ranks) - self.given)
        return (
            f"seed {self.seed}: {self.injected.fault} ({self.injected.detail}) in {self.layout.name} of "
            f"{self.layout.world.size}, {how}, rings {sizes[0]}-{sizes[-1]}, version {self.recorders[0].version}, "
            f"timing {self.recorders[0].timing}, names {self.style.names}, described {self.style.described}, "
            f"lost dumps {lost}, world told {self.world_told}"
        )


def draw(
    seed: int,
    *,
    faults: Sequence[str] = tuple(FAULTS),
    semantics: Semantics | None = None,
    thinned: bool = False,
) -> Scenario:
    """Draw a hung job with one of `faults`.

    `thinned`: several dumps are lost, whoever's they are, and the others often do not tell who is in which group.
    """
    random = Random(seed)
    fault = random.choice(list(faults))
    for _ in range(_TRIES):
        meant = semantics or (Semantics.NCCL if random.random() < 0.6 else Semantics.GLOO)
        style = draw_style(random, meant)
        layout = draw_layout(random, style)
        programs = {rank: list(steps) for rank, steps in layout.programs.items()}
        injected = inject(fault, layout, programs, random, meant)
        if injected is None:
            continue
        machine = Machine(meant, one_queue=random.random() < 0.6, eager_sends=random.random() < 0.5)
        ran = run(programs, machine, random=random, broken=injected.broken, dead_kernels=injected.dead_kernels)
        if not ran.hung:
            continue
        given = _given(injected, layout, random, fault)
        recorders = draw_recorders(random, layout, meant)
        if thinned:
            given -= {*random.sample(layout.world.ranks, random.randrange(min(4, layout.world.size - 1)))}
            told = random.random() < 0.4
            recorders = {r: replace(one, membership=one.membership and told) for r, one in recorders.items()}
        return Scenario(seed, style, layout, injected, ran, recorders, given, random.random() < 0.5)
    raise AssertionError(f"seed {seed}: no job has a place for {fault!r} within {_TRIES} tries")


@dataclass(frozen=True)
class Healthy:
    """A job without a fault, from its beginning to its end."""

    style: Style
    layout: Layout
    run: Run
    recorders: dict[int, Recorder]

    def dumps(self, *moments: tuple[int, int]) -> list[NodeSnapshot]:
        """Bare dumps of all ranks, once for each pair: of what moment they tell, and by its clock when written."""
        return [
            NodeSnapshot(
                live=False,
                ranks=tuple(
                    bare_rank(rank, self._trace(rank, at_ns), written_ns + self.recorders[rank].clock_ns)
                    for at_ns, written_ns in moments
                ),
            )
            for rank in self.layout.world.ranks
        ]

    def _trace(self, rank: int, at_ns: int) -> Trace:
        return parse_dump(as_json(dump_of(self.run, self.layout, rank, self.recorders[rank], at_ns=at_ns)))


def draw_healthy(
    seed: int,
    *,
    slow_rank: int | None = None,
    load_seconds: float | None = None,
    semantics: Semantics | None = None,
) -> Healthy:
    """Draw a job that ends well. `slow_rank` (modulo the ranks) takes four times as long for its own work."""
    random = Random(seed)
    semantics = semantics or random.choice(list(Semantics))
    style = replace(draw_style(random, semantics), load_seconds=load_seconds or random.uniform(0.05, 4.0))
    if slow_rank is not None:
        style = replace(style, synchronises_each=1, steps=7)
    layout = draw_layout(random, style)
    programs = dict(layout.programs)
    if slow_rank is not None:
        slow = slow_rank % layout.world.size
        steps = layout.programs[slow]
        programs[slow] = [Work(4 * step.seconds) if isinstance(step, Work) else step for step in steps]
    machine = Machine(semantics, one_queue=random.random() < 0.6, eager_sends=random.random() < 0.5)
    recorders = draw_recorders(random, layout, semantics)
    return Healthy(style, layout, run(programs, machine, random=random), recorders)


def _given(injected: Injected, layout: Layout, random: Random, fault: str) -> frozenset[int]:
    """Who has left a dump: not the crashed, and now and then a healthy rank has not either."""
    healthy = sorted(set(layout.world.ranks) - injected.culprits)
    lost = {random.choice(healthy)} if random.random() < 0.12 and len(healthy) > 2 else set()
    return frozenset(layout.world.ranks) - lost - (injected.culprits if fault == "crashes" else set())


def draw_style(random: Random, semantics: Semantics) -> Style:
    gloo = semantics is Semantics.GLOO
    return Style(
        steps=random.randint(4, 7),
        gloo=gloo,
        names="counted" if gloo else random.choice(["counted", "counted", "repeated"]),
        described=random.random() < 0.7,
        synchronises_each=random.choice([1, 1, 2, 10]),
        rooted=random.choice([None, None, "broadcast", "gather", "scatter"]),
        coalesced=random.choice([None, None, "fast", "slow"]),
        batched_p2p=random.random() < 0.6,
        load_seconds=random.uniform(0.02, 0.2),
        lists=random.random() < 0.5,
    )


def draw_recorders(random: Random, layout: Layout, semantics: Semantics) -> dict[int, Recorder]:
    """How each rank's recorder is set up: alike, but for its ids, its clock, and how full its ring is."""
    version = random.choice(["2.10", "2.10", "mixed", "2.4"])
    small = random.random() < 0.4
    timing = random.random() < 0.5
    recorders = {}
    size = random.choice([12, 25, 50])
    for rank in layout.world.ranks:
        recorders[rank] = Recorder(
            version=random.choice(["2.7", "2.9", "2.10"]) if version == "mixed" else version,
            size=size + random.randrange(6) if small else 2000,
            timing=timing,
            first_id=random.choice([0, random.randrange(1000)]),
            clock_ns=random.randrange(-3_000_000_000, 3_000_000_000),
            frames=random.random() < 0.5,
            membership=semantics is Semantics.NCCL,
        )
    return recorders
