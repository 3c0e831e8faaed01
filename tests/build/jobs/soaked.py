"""Simulated jobs under the real detector and the real judge, on a clock that runs as fast as they can.

Agents take a beat every five seconds and tell what `agent/look/digests.py` would; whenever the detector asks, the judge
gets two looks at the job at that moment.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random

from collector.align.expected import Expected
from collector.detect.alarms import Alarm
from collector.detect.detector import Detector
from collector.detect.limits import SIGN_SECONDS
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.wire.registration import STILL_SECONDS, ExitedRank, JobDigest, NodeDigest, Sign
from shared.wire.snapshot import Exited, Identity, NodeSnapshot
from shared.wire.stacks import Frame
from shared.wire.trace import LastIssued, Marks
from tests.build.simulation.engine import run
from tests.build.simulation.layouts import draw_layout
from tests.build.simulation.looks import LOADER, PER_NODE, Watched
from tests.build.simulation.program import Batch, Operation, Step, Team, Work
from tests.build.simulation.run import BEGUN_NS, Host, Machine, Run, Semantics
from tests.build.simulation.scenario import Scenario, draw_recorders, draw_style

BEAT_SECONDS = 5
_DIGEST_SECONDS = 30
_TIMEOUT_SECONDS = {Semantics.NCCL: 600.0, Semantics.GLOO: 1800.0}

_USER = "/home/ada/train.py"
_SITE = "/env/lib/python3.11/site-packages"
DOING: Mapping[str, tuple[Frame, ...]] = {
    "checkpoint": (
        Frame("save_checkpoint", _USER, 70),
        Frame("save", f"{_SITE}/torch/serialization.py", 943),
        Frame("_save", f"{_SITE}/torch/serialization.py", 1180),
    ),
    "evaluation": (Frame("evaluate", _USER, 90), Frame("forward", _USER, 12)),
    "compile": (
        Frame("compile_wrapper", f"{_SITE}/torch/_dynamo/eval_frame.py", 663),
        Frame("compile_fx", f"{_SITE}/torch/_inductor/compile_fx.py", 1400),
    ),
    "storage": (LOADER,),
    "node": (),
}
"""What ranks do in each kind of pause; whose node stands still does what it did."""


@dataclass(frozen=True)
class Paused(Work):
    """The host is at work on something that takes minutes, and is well."""

    kind: str = "evaluation"


@dataclass(frozen=True)
class Soaked:
    """A simulated job, and what may be seen of it at any moment. Times are seconds since it began."""

    watched: Watched
    paused: Mapping[int, Sequence[tuple[float, float, str]]] = field(default_factory=dict)
    """By rank: from when, until when, in what."""
    noise: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """By the first rank of a node: when its kernel tells of a link that is down, which the job does not need."""

    @property
    def run(self) -> Run:
        return self.watched.run

    @cached_property
    def seconds(self) -> float:
        """When the last thing happens."""
        return (self.run.ended_ns - BEGUN_NS) / 1e9

    @cached_property
    def _events(self) -> dict[int, list[float]]:
        """When each rank issued, started or completed something."""
        times = {}
        for rank, issued in self.run.issued.items():
            each = (t for op in issued for t in (op.issued_ns, op.started_ns, op.completed_ns) if t is not None)
            times[rank] = sorted((t - BEGUN_NS) / 1e9 for t in each)
        return times

    @cached_property
    def _issued(self) -> dict[int, list[float]]:
        return {rank: [(op.issued_ns - BEGUN_NS) / 1e9 for op in ops] for rank, ops in self.run.issued.items()}

    def kind_at(self, rank: int, now: float) -> str | None:
        """What a rank is busy with for minutes, if it is."""
        return next((kind for begin, until, kind in self.paused.get(rank, ()) if begin <= now < until), None)

    def nodes(self) -> list[tuple[int, ...]]:
        """The ranks of each node."""
        ranks = self.watched.layout.world.ranks
        return [ranks[at : at + PER_NODE] for at in range(0, len(ranks), PER_NODE)]

    def is_frozen(self, node: Sequence[int], now: float) -> bool:
        """Does the whole node stand still, its agent too?"""
        return all(self.kind_at(rank, now) == "node" for rank in node)

    def digest(self, node: Sequence[int], now: float) -> NodeDigest:
        """What the node's agent tells."""
        over = now > self.seconds
        gone = {r: self.run.hosts[r] for r in node if over and self.run.hosts[r] in (Host.DONE, Host.CRASHED)}
        living = [rank for rank in node if rank not in gone]
        newest = {rank: self._newest(rank, now) for rank in living}
        groups = sorted({group for group, _ in newest.values() if group})
        job = JobDigest(
            job="sim",
            attempt=self.watched.attempt,
            world_size=self.watched.layout.world.size,
            timeout_seconds=_TIMEOUT_SECONDS[self.run.machine.semantics],
            ranks=tuple(living),
            still=tuple(self._still(rank, now) for rank in living),
            idle=tuple(0.0 for _ in living),
            pending=tuple(True for _ in living),
            group=tuple(groups.index(newest[r][0]) if newest[r][0] else -1 for r in living),
            sequence=tuple(newest[rank][1] for rank in living),
            groups=tuple(groups),
            exited=tuple(
                ExitedRank(rank=rank, exit_code=0) if host is Host.DONE else ExitedRank(rank=rank, signal=9)
                for rank, host in gone.items()
            ),
        )
        told = [at for at in self.noise.get(node[0], ()) if 0.0 <= now - at <= SIGN_SECONDS]
        return NodeDigest(jobs=(job,), signs=tuple(Sign(kind="link_down", name="eth9", age=now - at) for at in told))

    def looks(self, now: float) -> list[NodeSnapshot]:
        """Two looks, three seconds apart; frozen nodes do not answer."""
        moments = [BEGUN_NS + int((now + after) * 1e9) for after in (0, 3)]
        frozen = {f"node-{number}" for number, node in enumerate(self.nodes()) if self.is_frozen(node, now)}
        return [_with_crashed(self, look) for look in self.watched.looks(moments) if look.host not in frozen]

    def last_marks(self, rank: int, now: float) -> Marks | None:
        """What an agent remembers of a rank's last operation."""
        (name, number), times = self._newest(rank, now), self._issued[rank]
        if not name:
            return None
        issued = times[bisect_right(times, now) - 1]
        ends = [(op.issued_ns - BEGUN_NS) / 1e9 for op in self.run.issued[rank] if op.completed_ns is not None]
        done = bisect_right(ends, now) >= bisect_right(times, now)
        last = LastIssued(
            group=name,
            op="all_reduce",
            sequence=number,
            completed=number if done else number - 1,
            issued_at_ns=BEGUN_NS + int(issued * 1e9),
            since_ns=BEGUN_NS + int(issued * 1e9),
        )
        return Marks(read_at_ns=BEGUN_NS + int(now * 1e9), groups=(last,))

    def _still(self, rank: int, now: float) -> float:
        events = self._events[rank]
        at = bisect_right(events, now)
        return now - (events[at - 1] if at else 0.0)

    @cached_property
    def _numbers(self) -> dict[int, list[tuple[str, int]]]:
        """The group of each operation of a rank, and its number there."""
        numbers: dict[int, list[tuple[str, int]]] = {}
        for rank, issued in self.run.issued.items():
            counts: Counter[Team] = Counter()
            for op in issued:
                assert isinstance(op.call, Operation | Batch)
                counts[op.call.team] += 1
                numbers.setdefault(rank, []).append((op.call.team.name, counts[op.call.team]))
        return numbers

    def _newest(self, rank: int, now: float) -> tuple[str, int]:
        count = bisect_right(self._issued[rank], now)
        return self._numbers[rank][count - 1] if count else ("", -1)


@dataclass
class Outcome:
    """What came of it."""

    alarms: list[tuple[float, Alarm, Diagnosis]] = field(default_factory=list)
    asked: int = 0
    resolved: list[str] = field(default_factory=list)


def watch(job: Soaked, *, until: float, detector: Detector | None = None, begin: float = 0.0) -> Outcome:
    """Let the detector watch a job until a time; `begin` is the detector's time at the job's beginning."""
    detector = detector or Detector()
    outcome = Outcome()
    told: dict[int, tuple[float, object]] = {}
    now, key = 0.0, ("sim", None)
    while now <= until:
        for number, node in enumerate(job.nodes()):
            if not job.is_frozen(node, now):
                _tell(detector, job, number, node, now, begin, told)
        due = detector.check(begin + now)
        for over in due.over:
            outcome.resolved.append(over.why)
            detector.closed(over.key, begin + now)
        if due.ask:
            outcome.asked += 1
            diagnosis = diagnose(job.looks(now), Expected(job="sim")).model_copy(
                update={"job": "sim", "id": f"d{now:.0f}"}
            )
            alarm = detector.answered(key, diagnosis, begin + now + BEAT_SECONDS - 1)
            if alarm is not None:
                outcome.alarms.append((now, alarm, diagnosis))
                opened = alarm.incident.model_copy(update={"id": f"i{now:.0f}"})
                detector.opened(key, opened, begin + now + BEAT_SECONDS - 1)
        now += BEAT_SECONDS
    return outcome


def _tell(
    detector: Detector,
    job: Soaked,
    number: int,
    node: Sequence[int],
    now: float,
    begin: float,
    told: dict[int, tuple[float, object]],
) -> None:
    digest = job.digest(node, now)
    states = tuple(
        (each.ranks, tuple(s is not None and s >= STILL_SECONDS for s in each.still), each.exited, len(digest.signs))
        for each in digest.jobs
    )
    at, before = told.get(number, (float("-inf"), None))
    if states != before or now - at >= _DIGEST_SECONDS:
        told[number] = (now, states)
        detector.take(f"node-{number}", digest, begin + now)


def _with_crashed(job: Soaked, look: NodeSnapshot) -> NodeSnapshot:
    """Agents that watch a job know how its ranks ended."""
    assert look.host is not None and look.taken_at_ns is not None
    here = job.nodes()[int(look.host.removeprefix("node-"))]
    seen = {rank.identity.rank for rank in look.ranks}
    crashed = [rank for rank in here if rank not in seen and job.run.hosts[rank] is Host.CRASHED]
    gone = (
        Exited(
            pid=1000 + rank,
            signal=9,
            identity=Identity(
                job="sim",
                rank=rank,
                world_size=job.watched.layout.world.size,
                attempt=job.watched.attempt,
                host=look.host,
                pid=1000 + rank,
                started_at=float(job.watched.attempt),
            ),
        )
        for rank in crashed
    )
    return look.model_copy(update={"exited": (*look.exited, *gone)})


@dataclass(frozen=True)
class Killed(Soaked):
    """A job of which all ranks are killed at once, whatever they are at."""

    at: float = 0.0

    def is_frozen(self, node: Sequence[int], now: float) -> bool:
        """Does the whole node stand still? What happens to it after the job's end does not matter."""
        return now <= self.at and super().is_frozen(node, now)

    @cached_property
    def seconds(self) -> float:
        """When it is killed."""
        return self.at

    def digest(self, node: Sequence[int], now: float) -> NodeDigest:
        """Nothing lives any more after that."""
        told = super().digest(node, min(now, self.at))
        if now <= self.at:
            return told
        gone = tuple(ExitedRank(rank=rank, signal=9) for rank in node)
        job = JobDigest(job="sim", world_size=told.jobs[0].world_size, exited=gone)
        return NodeDigest(jobs=(job,))

    def looks(self, now: float) -> list[NodeSnapshot]:
        """What agents remember of it."""
        if now <= self.at:
            return super().looks(now)
        return [
            NodeSnapshot(
                host=f"node-{number}",
                taken_at_ns=BEGUN_NS + int(now * 1e9),
                exited=tuple(_killed(self, rank, f"node-{number}") for rank in node),
            )
            for number, node in enumerate(self.nodes())
        ]


def _killed(job: Killed, rank: int, host: str) -> Exited:
    size = job.watched.layout.world.size
    identity = Identity(job="sim", rank=rank, world_size=size, host=host, pid=1000 + rank, started_at=0.0)
    gone_by_ns = BEGUN_NS + int(job.at * 1e9)
    marks = job.last_marks(rank, job.at)
    return Exited(pid=1000 + rank, signal=9, identity=identity, last_marks=marks, gone_by_ns=gone_by_ns)


def killed(seed: int) -> Killed:
    """A healthy job that is killed as a whole at some moment."""
    job = draw_paused(seed)
    at = Random(seed).uniform(20.0, max(21.0, job.seconds - 5.0))
    stands = [until for spans in job.paused.values() for begin, until, kind in spans if kind == "node" and begin <= at]
    at = max([at, *(until + 1.0 for until in stands if until > at)])  # a machine that stands still ends no process
    return Killed(job.watched, job.paused, job.noise, at=at)


class _PausedLooks(Watched):
    """Looks at a job some of whose ranks are busy for minutes."""

    def _doing(self, rank: int, at_ns: int) -> tuple[tuple[Frame, ...], float]:
        frames, share = super()._doing(rank, at_ns)
        seconds = (at_ns - BEGUN_NS) / 1e9
        spans = _spans(self.run, rank)
        kind = next((kind for begin, until, kind in spans if begin <= seconds < until), None)
        if kind is None or kind == "node":
            return frames, share
        busy = 0.0 if kind == "storage" else 1.0
        return (Frame("main", _USER, 12), Frame("train", _USER, 25), *DOING[kind]), busy


def _spans(run: Run, rank: int) -> Iterator[tuple[float, float, str]]:
    """From when until when a rank was in each of its long pauses."""
    for each in run.worked[rank]:
        if isinstance(each.work, Paused):
            yield (each.from_ns - BEGUN_NS) / 1e9, (each.until_ns - BEGUN_NS) / 1e9, each.work.kind


def hung(scenario: Scenario) -> Soaked:
    """A job that hangs, as the simulator draws it."""
    unrecorded = frozenset(scenario.layout.world.ranks) - scenario.given
    return Soaked(Watched(scenario.run, scenario.layout, scenario.recorders, unrecorded))


def draw_paused(seed: int, *, attempt: int = 0) -> Soaked:
    """A healthy job that stands still for minutes now and then, as healthy jobs do."""
    random = Random(seed)
    semantics = random.choice(list(Semantics))
    style = replace(draw_style(random, semantics), load_seconds=random.uniform(0.5, 8.0), steps=random.randint(10, 24))
    layout = draw_layout(random, style)
    programs = {rank: list(steps) for rank, steps in layout.programs.items()}
    _put_pauses(random, programs, layout.world.ranks)
    machine = Machine(semantics, one_queue=random.random() < 0.6, eager_sends=random.random() < 0.5)
    drawn = draw_recorders(random, layout, semantics)
    recorders = {rank: replace(recorder, size=min(recorder.size, 40)) for rank, recorder in drawn.items()}
    frozen = _freeze(programs, run(programs, machine, random=Random(seed)))
    ran = run(programs, machine, random=random, frozen=frozen)
    assert not ran.hung
    paused = {
        rank: (
            *(((begin - BEGUN_NS) / 1e9, (until - BEGUN_NS) / 1e9, "node") for begin, until in frozen.get(rank, ())),
            *_spans(ran, rank),
        )
        for rank in layout.world.ranks
    }
    job = Soaked(_PausedLooks(ran, layout, recorders, attempt=attempt), paused)
    nodes = [node[0] for node in job.nodes()]
    noise = {node: sorted(random.uniform(0, job.seconds) for _ in range(4)) for node in nodes if random.random() < 0.2}
    return replace(job, noise=noise)


def _freeze(programs: dict[int, list[Step]], ran: Run) -> dict[int, list[tuple[int, int]]]:
    """Take the pauses of nodes out of the programs; return from when until when, in ns, each rank's machine stands.

    A machine that pauses does so with all its ranks at once, whatever they are at: when the first came to its pause.
    """
    frozen: dict[int, list[tuple[int, int]]] = {}
    ranks = sorted(programs)
    for node in (ranks[at : at + PER_NODE] for at in range(0, len(ranks), PER_NODE)):
        pauses = [[each for each in ran.worked[rank] if _is_nodes(each.work)] for rank in node]
        begins = [min(each.from_ns for each in one) for one in zip(*pauses, strict=True)]
        lengths = [max(each.work.seconds for each in one) for one in zip(*pauses, strict=True)]
        spans = [(begin, begin + int(seconds * 1e9)) for begin, seconds in zip(begins, lengths, strict=True)]
        for rank in node:
            programs[rank][:] = [step for step in programs[rank] if not _is_nodes(step)]
            frozen |= {rank: spans} if spans else {}
    return frozen


def _is_nodes(step: Step) -> bool:
    return isinstance(step, Paused) and step.kind == "node"


def _put_pauses(random: Random, programs: dict[int, list[Step]], ranks: Sequence[int]) -> None:
    """Replace some of the loads at the beginning of steps by something that takes minutes."""
    loads = {rank: [at for at, step in enumerate(steps) if isinstance(step, Work)] for rank, steps in programs.items()}
    steps = min(map(len, loads.values()))
    for step in range(steps):
        if random.random() > 0.3:
            continue
        kind = "compile" if step == 0 else random.choice(["checkpoint", "checkpoint", "evaluation", "storage", "node"])
        node = random.randrange(0, len(ranks), PER_NODE)
        busy = {
            "checkpoint": random.choice([ranks[:1], ranks]),
            "evaluation": ranks,
            "compile": ranks,
            "storage": (random.choice(ranks),),
            "node": ranks[node : node + PER_NODE],
        }[kind]
        longest = {"checkpoint": 480, "evaluation": 480, "compile": 420, "storage": 200, "node": 150}[kind]
        seconds = random.uniform(20.0, longest)
        for rank in busy:
            programs[rank][loads[rank][step]] = Paused(seconds * random.uniform(0.9, 1.0), kind)
