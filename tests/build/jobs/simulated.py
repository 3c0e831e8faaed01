"""A small simulator of blocking jobs, whose roots are known because they were put there.

Each rank runs a list of steps. A collective completes when every member of its group has issued the same sequence
with the same operation and size; a send when its receive is posted, and the other way round. What remains when
nobody can go on is a hang, and the traces are what a recorder would have kept of it.
"""

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from collector.align.stacks.user_frames import is_user_frame
from shared.missing import Missing, Reason
from shared.rank_sets import fold
from shared.wire.snapshot import Beat, Identity, NodeSnapshot, Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, Thread
from shared.wire.trace import COLUMNS, Group, Signature, State, Trace

WORLD = "0"
STEP_NS = 10_000_000
STARTED_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Collective:
    """One call of `op` on `group` with `size` elements."""

    group: str
    op: str = "all_reduce"
    size: int = 16


@dataclass(frozen=True)
class Send:
    to: int
    group: str = WORLD


@dataclass(frozen=True)
class Recv:
    from_: int
    group: str = WORLD


@dataclass(frozen=True)
class Stay:
    """The rank goes no further and is in none of its groups' operations."""


Step = Collective | Send | Recv | Stay


@dataclass
class Rank:
    """One simulated rank: its steps, where it is in them, and what its recorder holds."""

    rank: int
    steps: Sequence[Step]
    at: int = 0
    issued: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    rows: list[dict[str, int]] = field(default_factory=list)
    signatures: dict[Signature, int] = field(default_factory=dict)
    waiting: bool = False


class Job:
    """A simulated job. `groups` maps a group's name to its members; the world is added by itself."""

    def __init__(self, steps: Mapping[int, Sequence[Step]], groups: Mapping[str, Sequence[int]] | None = None) -> None:
        self.groups = {WORLD: tuple(sorted(steps))} | {name: tuple(m) for name, m in (groups or {}).items()}
        self.ranks = {rank: Rank(rank, list(mine)) for rank, mine in steps.items()}
        self.now = STARTED_NS
        self._run()

    def _run(self) -> None:
        moved = True
        while moved:
            moved = False
            for rank in self.ranks.values():
                moved |= self._issue(rank)
            moved |= self._complete()

    def _issue(self, rank: Rank) -> bool:
        if rank.waiting or rank.at >= len(rank.steps) or isinstance(rank.steps[rank.at], Stay):
            return False
        self.now += STEP_NS
        self._record(rank, rank.steps[rank.at])
        rank.waiting = True
        return True

    def _record(self, rank: Rank, step: Step) -> None:
        p2p = not isinstance(step, Collective)
        group = WORLD if isinstance(step, Stay) else step.group
        rank.issued[group] += not p2p
        signature = _signature(rank.rank, step, self.groups)
        rank.rows.append(
            {
                "group": list(self.groups).index(group),
                "signature": rank.signatures.setdefault(signature, len(rank.signatures)),
                "call_site": 0,
                "collective_seq": rank.issued[group],
                "p2p_seq": sum(row["is_p2p"] for row in rank.rows) + 1 if p2p else 0,
                "op_id": len(rank.rows) + 1,
                "is_p2p": int(p2p),
                "state": State.ISSUED,
                "created_ns": self.now,
                "started_ns": 0,
                "completed_ns": 0,
            }
        )

    def _complete(self) -> bool:
        done = False
        for rank in self.ranks.values():
            if rank.waiting and all(self._has_come(other, rank) for other in self._partners(rank)):
                for member in {rank.rank, *self._partners(rank)}:
                    self.ranks[member].waiting = False
                    self.ranks[member].at += 1
                    self.ranks[member].rows[-1]["state"] = State.COMPLETED
                done = True
        return done

    def _partners(self, rank: Rank) -> tuple[int, ...]:
        """Who must have come, of a group's members the rank itself too."""
        step = rank.steps[rank.at]
        if isinstance(step, Collective):
            return self.groups[step.group]
        return (step.to if isinstance(step, Send) else step.from_ if isinstance(step, Recv) else rank.rank,)

    def _has_come(self, other_rank: int, rank: Rank) -> bool:
        other, mine = self.ranks.get(other_rank), rank.steps[rank.at]
        if other is None or not other.waiting:
            return False
        theirs = other.steps[other.at]
        if isinstance(mine, Collective):
            return theirs == mine and other.issued[mine.group] == rank.issued[mine.group]
        group = WORLD if isinstance(mine, Stay) else mine.group
        pairs = (Send(rank.rank, group), Recv(other_rank, group)), (Recv(rank.rank, group), Send(other_rank, group))
        return (theirs, mine) in pairs

    def trace(self, rank: int, *, members: bool = True, window: int | None = None) -> Trace:
        """The recorder of `rank`; without `members` as Gloo writes it, with `window` as a small ring leaves it."""
        mine = self.ranks[rank]
        rows = mine.rows if window is None else mine.rows[-window:]
        known = {
            row["group"] for row in mine.rows
        }  # where members are not told, a rank's dump has its own groups alone
        places = {at: place for place, at in enumerate(at for at in range(len(self.groups)) if members or at in known)}
        rows = [row | {"group": places[row["group"]]} for row in rows]
        return Trace(
            version="2.10",
            groups=tuple(
                Group(
                    name=name,
                    description="default_pg" if name == WORLD else name,
                    members=fold(ranks) if members else None,
                )
                for at, (name, ranks) in enumerate(self.groups.items())
                if at in places
            ),
            truncated=len(rows) < len(mine.rows),
            signatures=tuple(mine.signatures),
            **{column: array("q", (row[column] for row in rows)) for column in COLUMNS},
        )

    def dumps(
        self, *, without: Sequence[int] = (), members: bool = True, window: int | None = None
    ) -> list[NodeSnapshot]:
        """Bare dumps of all ranks except `without`, one snapshot each."""
        return [
            NodeSnapshot(live=False, ranks=(_bare(rank, self.trace(rank, members=members, window=window)),))
            for rank in self.ranks
            if rank not in without
        ]


PAIRS: Mapping[str, tuple[int, ...]] = MappingProxyType({"tp0": (0, 1), "tp1": (2, 3)})
"""Tensor-parallel pairs in a data-parallel world of four."""


def training(rank: int, steps: int = 5) -> list[Step]:
    """Steps of such a job, the pair's reduction before the world's."""
    return [Collective(f"tp{rank // 2}"), Collective(WORLD)] * steps


PIPELINES: Mapping[str, tuple[int, ...]] = MappingProxyType({"pp0": (0, 2), "pp1": (1, 3)})


def a_send_too_many() -> Job:
    """Two pipelines, each of two stages: rank 0 sends once more than rank 2 receives, and rank 1 does not."""
    passes = {0: Send(2, "pp0"), 2: Recv(0, "pp0"), 1: Send(3, "pp1"), 3: Recv(1, "pp1")}
    steps: dict[int, list[Step]] = {rank: [step, Collective(WORLD)] * 3 for rank, step in passes.items()}
    return Job(steps | {0: [*steps[0], passes[0]]}, PIPELINES)


def _signature(rank: int, step: Step, groups: Mapping[str, tuple[int, ...]]) -> Signature:
    if isinstance(step, Collective):
        return Signature(step.op, "nccl", ((step.size,),), ("Float",), ((step.size,),), ("Float",))
    if isinstance(step, Send):
        mine, theirs = map(groups[step.group].index, (rank, step.to))
        return Signature("send", "nccl", ((16,),), ("Float",), source=mine, target=theirs)
    if isinstance(step, Recv):
        mine, theirs = map(groups[step.group].index, (rank, step.from_))
        return Signature("recv", "nccl", (), (), ((16,),), ("Float",), source=theirs, target=mine)
    raise AssertionError(step)


def _nothing() -> Missing:
    return Missing(source="files", reason=Reason.NOT_FOUND)


def _bare(rank: int, trace: Trace) -> RankSnapshot:
    nothing = _nothing()
    return RankSnapshot(
        identity=Identity(rank=rank), process=nothing, stacks=nothing, fds=nothing, logs=nothing, recorder=trace
    )


USER = Frame("train_step", "/home/ada/train.py", 40)
ALL_REDUCE = Frame("all_reduce", "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 3252)
RECV = Frame("recv", "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2799)
LOADER = Frame("_try_get_data", "/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py", 1310)


@dataclass(frozen=True)
class Seen:
    """What a look shows of one live rank, besides its trace."""

    frames: tuple[Frame, ...] = (USER, ALL_REDUCE)
    state: str = "S"
    switches_per_second: float = 0.0
    cpu_share: float = 0.0
    main_cpu_share: float | None = None
    bytes_per_second: int = 0

    @property
    def syscall(self) -> Syscall | None:
        """Whoever stays away in user code sleeps there, as the kernel shows; it tells nothing of the others."""
        asleep = any(map(is_user_frame, self.frames[-1:])) and self.state == "S" and not self.cpu_share
        return Syscall(name="clock_nanosleep") if asleep else None


def live_looks(
    job: Job,
    seen: Mapping[int, Seen],
    *,
    world_size: int | None = None,
    looks: int = 2,
    after_seconds: float = 60.0,
    interval_seconds: float = 3.0,
    recorder: bool = True,
    host: str = "node-a",
) -> list[NodeSnapshot]:
    """Looks at a job whose ranks stand still, begun `after_seconds` after its last operation."""
    begun = job.now + int(after_seconds * 1e9)
    return [
        NodeSnapshot(
            host=host,
            taken_at_ns=begun + int(i * interval_seconds * 1e9),
            ranks=tuple(
                _live_rank(
                    job,
                    rank,
                    what,
                    begun + int(i * interval_seconds * 1e9),
                    i * interval_seconds,
                    world_size,
                    recorder,
                    host,
                )
                for rank, what in seen.items()
            ),
        )
        for i in range(looks)
    ]


def _live_rank(
    job: Job, rank: int, seen: Seen, at_ns: int, seconds: float, world_size: int | None, recorder: bool, host: str
) -> RankSnapshot:
    nothing = _nothing()
    size = world_size or len(job.ranks)
    beat = Beat(
        at_ns=at_ns,
        cpu_seconds=seen.cpu_share * seconds,
        main_cpu_seconds=(seen.cpu_share if seen.main_cpu_share is None else seen.main_cpu_share) * seconds,
        main_switches=int(seen.switches_per_second * seconds),
        io_bytes=int(seen.bytes_per_second * seconds),
    )
    pid = 1000 + rank
    return RankSnapshot(
        identity=Identity(
            job="sim",
            rank=rank,
            local_rank=rank,
            world_size=size,
            local_world_size=size,
            host=host,
            pid=pid,
            started_at=1.0,
        ),
        looked_at_ns=at_ns,
        process=Process(pid=pid, state=seen.state, syscall=seen.syscall, before=beat, after=beat),  # type: ignore[arg-type]
        stacks=Stacks(
            pid=pid,
            frames=seen.frames,
            threads=(Thread(tid=pid, name="MainThread", frames=tuple(range(len(seen.frames)))),),
        ),
        fds=nothing,
        logs=nothing,
        recorder=job.trace(rank) if recorder else Missing(source="recorder", reason=Reason.NOT_ENABLED),
    )
