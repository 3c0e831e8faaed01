"""What a rank burns while it waits is no sign of work, and everything else is."""

from array import array

import pytest

from collector.align.progress import JobMotion, Motion, motion_of
from collector.align.roster import Presence, RankView, Roster
from collector.align.stacks.rank_activities import activities_of
from shared.missing import Missing, Reason
from shared.wire.snapshot import Beat, Identity, Process, RankSnapshot, Syscall
from shared.wire.stacks import Frame, Stacks, StackTable, Thread
from shared.wire.trace import COLUMNS, Group, Mark, Origin, Trace

_C10D = "/env/torch/distributed/distributed_c10d.py"
TRAIN = Frame(function="train", file="/app/train.py", line=10)
ELSEWHERE = Frame(function="train", file="/app/train.py", line=11)
ALL_REDUCE = Frame(function="all_reduce", file=_C10D, line=3000)
SYNCHRONIZE = Frame(function="synchronize", file="/env/torch/cuda/__init__.py", line=1000)
BACKWARD = Frame(function="_engine_run_backward", file="/env/torch/autograd/graph.py", line=869)
JOINS = Frame(function="ncclCommInitRankConfig", file="libnccl.so.2", line=0, native=True)
NOTHING = Missing(source="x", reason=Reason.NOT_FOUND)

NCCL = {"pt_nccl_watchdg": 1}
GLOO = {"gloo_tcp_loop": 1}


def look(
    at: int, stack: tuple[Frame, ...], *, cpu: float, wakes: int, calls: str, threads: dict[str, int]
) -> RankSnapshot:
    """One of two looks, four seconds apart."""
    table = StackTable()
    thread = Thread(tid=10, name="MainThread", frames=tuple(map(table.add, stack)))
    beat = Beat(at_ns=at * 4_000_000_000, cpu_seconds=cpu * at, main_cpu_seconds=0.0, main_switches=wakes * at)
    return RankSnapshot(
        identity=Identity(job="j", rank=0, host="a", pid=10, started_at=1.0),
        looked_at_ns=at * 4_000_000_000,
        process=Process(pid=10, state="R", syscall=Syscall(name=calls), before=beat, after=beat, group_threads=threads),
        stacks=Stacks(pid=10, frames=table.frames, threads=(thread,), native=any(frame.native for frame in stack)),
        fds=NOTHING,
        recorder=NOTHING,
        logs=NOTHING,
    )


@pytest.mark.parametrize(
    ("what", "stack", "cpu", "wakes", "calls", "threads", "moves"),
    [
        ("the driver spins", (TRAIN, SYNCHRONIZE), 4.0, 0, "running", NCCL, False),
        ("… of a job whose groups nobody can tell", (TRAIN, SYNCHRONIZE), 4.0, 0, "running", {}, False),
        ("a step ends meanwhile, so it sleeps", (TRAIN, SYNCHRONIZE), 4.0, 200, "running", NCCL, True),
        ("NCCL polls while it joins", (TRAIN, ALL_REDUCE), 1.0, 9000, "clock_nanosleep", NCCL, False),
        ("… as native frames tell", (TRAIN, ALL_REDUCE, JOINS), 1.0, 9000, "running", NCCL, False),
        ("many quick collectives", (TRAIN, ALL_REDUCE), 1.0, 9000, "futex", GLOO, True),
        ("many quick collectives by Gloo beside NCCL", (TRAIN, ALL_REDUCE), 1.0, 9000, "futex", {**NCCL, **GLOO}, True),
        ("a proxy spins over the network", (TRAIN, ALL_REDUCE), 4.0, 0, "futex", NCCL, False),
        ("a step sleeps before it comes to Gloo", (TRAIN, ALL_REDUCE), 0.0, 9000, "clock_nanosleep", GLOO, True),
        ("Gloo's threads move data", (TRAIN, ALL_REDUCE), 4.0, 0, "futex", GLOO, True),
        ("threads of its own compute", (TRAIN, BACKWARD), 4.0, 0, "futex", NCCL, True),
        ("it computes", (TRAIN,), 4.0, 0, "running", NCCL, True),
        ("it retries", (TRAIN,), 0.0, 9000, "clock_nanosleep", NCCL, True),
        ("it stands still", (TRAIN, ALL_REDUCE), 0.0, 0, "futex", NCCL, False),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_what_a_wait_burns_is_no_work(
    what: str,
    stack: tuple[Frame, ...],
    cpu: float,
    wakes: int,
    calls: str,
    threads: dict[str, int],
    moves: bool,
) -> None:
    """At one place in both looks."""
    looks = tuple(look(at, stack, cpu=cpu, wakes=wakes, calls=calls, threads=threads) for at in (0, 1))
    motion = motion_of_rank(*looks)
    assert motion is (Motion.BUSY if moves else Motion.FROZEN), what


def test_who_leaves_a_wait_moves() -> None:
    """Whatever it burns there."""
    burns = {"cpu": 1.0, "wakes": 9000, "calls": "clock_nanosleep", "threads": NCCL}
    first, second = (look(at, (start, ALL_REDUCE), **burns) for at, start in enumerate((TRAIN, ELSEWHERE)))
    assert motion_of_rank(first, second) is Motion.BUSY


@pytest.mark.parametrize("calls", ["running", "futex"])
@pytest.mark.parametrize(("counted", "woken"), [((1, 1), set()), ((1, 2), {0})])
def test_who_polls_has_not_come_out_of_its_wait(calls: str, counted: tuple[int, int], woken: set[int]) -> None:
    """Whatever system call it was seen in: its groups count what it issues."""
    polls = [look(at, (TRAIN, ALL_REDUCE), cpu=1.0, wakes=9000, calls=calls, threads=NCCL) for at in (0, 1)]
    looks = [one.model_copy(update={"recorder": counters(n)}) for one, n in zip(polls, counted, strict=True)]
    assert motion_of_job(*looks).woken == woken


def counters(issued: int) -> Trace:
    """What the groups of a rank without a flight record tell: so many operations, of which none is listed."""
    world, mark = Group(name="0", description="default_pg"), Mark(group=0, issued=issued)
    columns = {name: array("q") for name in COLUMNS}
    return Trace(origin=(Origin.PROCESS_GROUPS,), groups=(world,), signatures=(), marks=(mark,), **columns)


def motion_of_rank(*looks: RankSnapshot) -> Motion:
    """Return what became of one rank between two looks."""
    return motion_of_job(*looks).by_rank[0]


def motion_of_job(*looks: RankSnapshot) -> JobMotion:
    """Return what became of a job of one rank."""
    view = RankView(0, Presence.RUNNING, looks, host="a")
    roster = Roster(job="j", world_size=1, ranks={0: view}, conflicts=(), live=True, last_look_ns=1)
    return motion_of(roster, activities_of(roster.present()))
