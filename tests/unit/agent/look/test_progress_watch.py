"""What the agent remembers: who stands still since when, and who has gone and how."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.deadline import Deadline, ThreadPool
from agent.find.choose_ranks import FoundRanks, Rank
from agent.find.process_owner import parse_users
from agent.find.processes import Listing
from agent.look.node import Node
from agent.look.progress_watch import Watch
from agent.proc.procfs import ProcFs
from agent.settings import AgentSettings
from agent.sources.recorder.memory.marks import GroupMark
from shared.errors import InvalidSettings
from shared.missing import Reason
from shared.wire.snapshot import Exited
from tests.build.processes.proc_trees import TORCH, add_process, make_tree, stat_line, torchrun
from tests.build.processes.processes import HERE, READY, SLEEP, rank_environment, running, until
from tests.unit.agent.find.test_pod_of_process import SCOPE, UID

pytestmark = pytest.mark.ptrace


def node(procfs: ProcFs | None = None, **options: Any) -> Node:
    """Return a node with a memory."""
    return Node(procfs or ProcFs(), "here", ThreadPool(), **options)


def exited_of(one: Node, pid: int) -> Exited | None:
    """Say how a process went."""
    return next((e for e in one.find(Deadline(10)).exited if e.pid == pid), None)


PARENT = """
import os, subprocess, sys, time
command = [sys.executable, '-c', 'import time; time.sleep(600)']
ranks = [subprocess.Popen(command, env=os.environ | {'RANK': str(n)}) for n in range(2)]
print('ready', flush=True)
print(*[rank.pid for rank in ranks], flush=True)
if sys.stdin.readline() == 'reap\\n':
    ranks[1].wait()
    print('reaped', flush=True)
time.sleep(600)
"""


@contextmanager
def two_ranks(port: int) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """Run a launcher with two ranks; give it, and theirs."""
    environment = {name: value for name, value in rank_environment(port=port).items() if name != "RANK"}
    with running(PARENT, env=environment, stdin=-1) as parent:
        assert parent.stdout is not None
        yield parent, [int(word) for word in parent.stdout.readline().split()]


@pytest.mark.parametrize("known", [True, False])
def test_killed_rank_that_nobody_reaps(known: bool) -> None:
    """Its signal is told; which rank it was, if it was seen alive."""
    one = node()
    with two_ranks(29411) as (_, pids):
        until(lambda: one.find(Deadline(10)) if known else None, lambda f: f is None or len(mine(f, 29411)) == 2)
        os.kill(pids[1], signal.SIGKILL)
        until(lambda: ProcFs().stat(pids[1]).state, lambda state: state == "Z")
        exited = until(lambda: exited_of(one, pids[1]), lambda e: e is not None)
    assert exited is not None
    assert (exited.signal, exited.exit_code) == (9, None)
    assert exited.sibling_jobs == (f"{HERE}:29411",)
    assert (None if exited.identity is None else exited.identity.rank) == (1 if known else None)


def mine(found: FoundRanks, port: int) -> list[Rank]:
    """Return who is a rank of one of our jobs."""
    return [rank for rank in found.ranks if rank.identity.job == f"{HERE}:{port}"]


KERNEL_KEEPS_EXITS = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 15)


def test_rank_that_was_reaped_is_remembered() -> None:
    """That it is gone is known; how, where the kernel keeps that for whoever held the process."""
    one = node()
    with two_ranks(29412) as (parent, pids):
        assert parent.stdout is not None and parent.stdin is not None
        until(lambda: one.find(Deadline(10)), lambda f: len(mine(f, 29412)) == 2)
        os.kill(pids[1], signal.SIGKILL)
        parent.stdin.write("reap\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "reaped\n"
        exited = exited_of(one, pids[1])
    assert exited is not None and exited.identity is not None
    assert (exited.identity.rank, exited.exit_code) == (1, None)
    assert exited.signal == (9 if KERNEL_KEEPS_EXITS else None)


FAILS = """
import os, sys
os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 2)
print('ready', flush=True)
sys.stdin.readline()
raise ValueError('no such shard, token=ghp_0123456789abcdefghijABCDEFGHIJ012345')
"""


@pytest.mark.skipif(not KERNEL_KEEPS_EXITS, reason="needs Linux 6.15, which keeps exit codes")
def test_what_a_rank_died_of_is_told_from_its_own_log(tmp_path: Path) -> None:
    """Written a moment before it was gone, to a file that has no name any more; its secrets are not told."""
    one, log = node(), tmp_path / "rank0.log"
    command = (sys.executable, "-c", FAILS, str(log))
    with running(command=command, env=rank_environment(0, port=29417), stdin=-1) as process:
        until(lambda: mine(one.find(Deadline(10)), 29417), lambda ranks: len(ranks) == 1)
        log.unlink()
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        process.wait(30)
        exited = until(lambda: exited_of(one, process.pid), lambda e: e is not None)
    assert exited is not None and exited.exit_code == 1
    assert exited.last_failure is not None and exited.last_failure.rank == 0
    assert exited.last_failure.text.startswith("ValueError: no such shard") and "ghp_" not in str(exited)
    assert exited.last_failure.fields == {"raised_file": "<string>", "raised_line": "6", "raised_function": "<module>"}


class Machine:
    """A made-up tree with ranks of the job `night`, and a node that remembers them."""

    def __init__(self, folder: Path, *pids: int, procfs: type[ProcFs] = ProcFs, **options: Any) -> None:
        """Ranks 0, 1, … are these processes."""
        self.procfs = procfs(make_tree(folder / "proc"))
        self.root = self.procfs.root
        self.start(dict(enumerate(pids)))
        self.node = node(self.procfs, **options)

    def start(self, pids: dict[int, int], start: int = 0) -> None:
        """Start ranks: their process ids by rank."""
        for rank, pid in pids.items():
            add_process(self.root, pid, 1, torchrun(rank), maps=TORCH, start=start or pid * 10)

    def end(self, *pids: int) -> None:
        """End processes."""
        for pid in pids:
            shutil.rmtree(self.root / str(pid))

    def find(self) -> FoundRanks:
        """Find who is there."""
        return self.node.find(Deadline(5))

    def ranks(self) -> list[int]:
        """Return which ranks are there."""
        return [rank.identity.rank for rank in self.find().ranks]

    def lost(self) -> list[int | None]:
        """Return which ranks have gone."""
        return [None if e.identity is None else e.identity.rank for e in self.find().exited]


def test_rank_that_is_lost_is_told_while_others_live(tmp_path: Path) -> None:
    """For as long as they do. A job that is killed and started again under its name has lost nobody."""
    one = Machine(tmp_path, 20, 21, 22, 23)
    one.find()
    one.end(21)
    assert [one.lost(), one.lost()] == [[1], [1]]
    one.end(20, 22, 23)
    assert len(one.lost()) == 4
    one.start({0: 30, 1: 31}, int((time.time() - 1_700_000_000 + 60) * 100))
    assert one.lost() == []


def test_rank_that_takes_its_time_to_end_is_told_once_it_has(tmp_path: Path) -> None:
    """The kernel answers ESRCH for what its memory told, and counts it as sleeping still."""
    one = Machine(tmp_path, 20, 21)
    one.find()
    one.end(21)
    (one.root / "21").mkdir()
    (one.root / "21" / "stat").write_text(stat_line(21, 1, "python3", "S", 210))
    (one.root / "21" / "statm").write_text("0 0 0 0 0 0 0\n")
    assert one.lost() == []
    one.end(21)
    assert one.lost() == [1]


def test_launcher_that_was_taken_for_a_rank_has_not_exited(tmp_path: Path) -> None:
    """Before it had started anybody it looked like one."""
    one = Machine(tmp_path, 20)
    assert one.ranks() == [0]
    add_process(one.root, 30, 20, torchrun(0), maps=TORCH)
    add_process(one.root, 31, 20, torchrun(1), maps=TORCH)
    found = one.find()
    assert (sorted(rank.stat.pid for rank in found.ranks), found.exited) == ([30, 31], ())


def test_only_some_ranks(tmp_path: Path) -> None:
    """Two agents can share a machine, in a demonstration: they do not tell of one rank twice, living or lost."""
    one = Machine(tmp_path, 20, 21, 22, 23, only_ranks="0,2-3")
    other = node(one.procfs, only_ranks="1")
    assert (one.ranks(), len(other.find(Deadline(5)).ranks)) == ([0, 2, 3], 1)
    one.end(22)
    assert (one.lost(), len(other.find(Deadline(5)).exited)) == ([2], 0)


def test_only_some_users(tmp_path: Path) -> None:
    """An allow-list: of processes of others nothing is told, living or gone; rank 1 is in a pod, the last nobody's."""
    one = Machine(tmp_path, 20, 21, 22, 23, only_users=parse_users("1001, 1003"))
    for pid, uid in ((20, 1001), (21, 1003), (22, 10011)):
        (one.root / str(pid) / "status").write_text(f"Name:\tpython\nUid:\t{uid}\t0\t0\t0\n")
    (one.root / "21" / "cgroup").write_text(f"0::/{SCOPE}\n")
    (one.root / "1" / "root" / "var" / "log" / "pods" / f"team-a_llama-0_{UID}").mkdir(parents=True)
    assert one.ranks() == [0, 1]
    one.end(20, 21, 22, 23)
    assert one.lost() == [0, 1]


def test_users_by_name_and_number() -> None:
    """Names are those of this machine."""
    assert parse_users("root 1234,") == {0, 1234}
    assert parse_users("") == frozenset()
    for wrong in ("no-such-user", "12345678901", "-1", "²"):
        with pytest.raises(InvalidSettings, match="not a user"):
            parse_users(wrong)


class Sticky(ProcFs):
    """A /proc in which reading about one process blocks, as it does when its memory is locked; or all does."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.stuck: int | None = None
        self.gate = threading.Event()

    def read(self, pid: int, name: str, *, most: int = 1024 * 1024) -> bytes:
        if pid == self.stuck and name == "environ":
            self.gate.wait(60)
        return super().read(pid, name, most=most)

    def pids(self) -> list[int]:
        if self.stuck == 0:
            self.gate.wait(60)
        return super().pids()


def test_process_that_blocks_its_reader_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are found, and what is missing is said."""
    monkeypatch.setattr("agent.look.node._FIND_SECONDS", 0.3)
    one = Machine(tmp_path, 20, 21, 22, procfs=Sticky)
    assert isinstance(one.procfs, Sticky)
    one.procfs.stuck = 21
    for _ in range(2):
        assert one.ranks() == [0, 2]
        assert [missing.reason for missing in one.find().missing] == [Reason.TIMED_OUT]
    one.procfs.gate.set()
    one.end(21)
    assert one.find().missing == ()


def test_machine_that_blocks_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nobody is found, and that is what is said, in time."""
    monkeypatch.setattr("agent.look.node._FIND_SECONDS", 0.2)
    one = Machine(tmp_path, 20, procfs=Sticky)
    assert isinstance(one.procfs, Sticky)
    one.procfs.stuck = 0
    begun = time.perf_counter()
    for _ in range(2):
        found = one.find()
        assert (found.ranks, [missing.reason for missing in found.missing]) == ((), [Reason.TIMED_OUT])
    assert time.perf_counter() - begun < 30
    one.procfs.gate.set()


def test_known_rank_in_uninterruptible_sleep_is_not_read_again(tmp_path: Path) -> None:
    """Reading might block; it is told of as it was known."""
    one = Machine(tmp_path, 20, 21, procfs=Sticky)
    assert isinstance(one.procfs, Sticky)
    one.find()
    one.procfs.stuck = 21
    (one.root / "21" / "stat").write_text(stat_line(21, 1, "python3", "D", 210))
    assert [(rank.identity.rank, rank.stat.state) for rank in one.find().ranks] == [(0, "S"), (1, "D")]


@pytest.mark.parametrize(("completed", "minutes", "waits"), [(6, 5, True), (7, 5, False), (6, 0.5, False)])
def test_rank_that_spins_in_an_operation_stands_still(completed: int, minutes: float, waits: bool) -> None:
    """Once it has been pending for longer than a rank may be at work beside it; one that has none is at work."""
    one, ago = node(), [60.0 * minutes]
    issued_ns = int((time.time() - sum(ago)) * 1e9)
    mark = GroupMark("0", "default_pg", 7, None, completed, "nccl:all_reduce", issued_ns)
    with running(READY + "while True: sum(range(1000))\n", env=rank_environment(0, port=29414)):
        (rank,) = until(lambda: mine(one.find(Deadline(10)), 29414), len)
        watch = Watch(ProcFs(), "here", clock=lambda: time.time() - sum(ago))
        watch.see(FoundRanks((rank,), (), ()), Listing({}, {}, ()))
        watch.take_marks(rank, (mark,))
        ago.clear()

        def seen() -> tuple[float | None, float | None]:
            time.sleep(0.25)
            watch.beat()
            return watch.seen_for_seconds(rank.key)

        for _ in range(2):
            seen()
        still, since = until(seen, lambda seconds: (seconds[0] == seconds[1]) is waits)
    assert since is not None
    assert (still == since) is waits


GRANDCHILDREN = """
import subprocess, sys, time
work = "import subprocess, sys\\nwhile True: subprocess.run([sys.executable, '-S', '-c', 'sum(range(10**6))'])"
child = subprocess.Popen([sys.executable, "-c", work])
print("ready", flush=True)
child.wait()
"""
"""Waits for a child that does nothing but wait for short-lived children of its own, as a build does."""


def test_rank_whose_grandchildren_work_does_not_stand_still() -> None:
    """Each is gone before anybody looks at it; what they used is found with those that waited for them."""
    one = node()
    with running(GRANDCHILDREN, env=rank_environment(0, port=29415)):
        found = until(lambda: one.find(Deadline(10)), lambda f: any(r.children for r in mine(f, 29415)))
        (rank,) = mine(found, 29415)
        one.beat(Deadline(5))

        def idle_after_a_beat() -> float:
            time.sleep(1.0)
            one.beat(Deadline(5))
            return one.watch.idle_for_seconds(rank.key) or 0.0

        assert until(idle_after_a_beat, lambda idle: idle < 1.0) < 1.0


def test_beat_goes_on_after_a_moment_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that nobody watches any more would seem to stand still for as long as the agent lives."""
    refused = []

    def none_left(_: threading.Thread) -> None:
        refused.append(1)
        raise RuntimeError("can't start new thread")

    one = Agent(AgentSettings(beat_seconds=0.02, discover_seconds=0.02))
    one.start()
    try:
        with monkeypatch.context() as short_of_threads:
            short_of_threads.setattr(threading.Thread, "start", none_left)
            # a search that had its thread before may still be at it, which on a busy machine takes its time
            until(one.ranks, lambda ranks: [each.reason for each in ranks.missing] == [Reason.REFUSED], 120.0)
            until(lambda: len(refused), lambda times: times > 10, 120.0)
        with running(SLEEP, env=rank_environment(port=29412)) as rank:
            until(lambda: one.node.watch.idle_for_seconds(_key(rank.pid)), lambda seconds: seconds is not None, 120.0)
    finally:
        one.stop()


def test_searches_do_not_wait_for_the_beat() -> None:
    """A rank that lives for less than a beat is seen where searches are more frequent than beats."""
    one = Agent(AgentSettings(beat_seconds=3600, discover_seconds=0.05))
    one.start()
    try:
        with running(SLEEP, env=rank_environment(port=29413)) as rank:
            until(lambda: one.node.watch.ranks, lambda ranks: rank.pid in {each.stat.pid for each in ranks})
    finally:
        one.stop()


def _key(pid: int) -> tuple[int, int]:
    return pid, ProcFs().stat(pid).start_ticks
