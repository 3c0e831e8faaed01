"""Process groups in the memory of real processes that no variable names, or that variables name wrongly."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.deadline import Deadline, ThreadPool
from agent.errors import Unavailable
from agent.find import group_search
from agent.find.choose_ranks import Rank
from agent.find.group_search import GroupSearch
from agent.find.processes import Lister
from agent.find.torch_groups import find_group
from agent.look.node import Node
from agent.proc.memory.mappings import read_mappings
from agent.proc.memory.process_memory import ProcessMemory, open_memory
from agent.proc.procfs import ProcFs
from tests.build.processes.ports import free_port
from tests.build.processes.processes import HERE, READY, rank_environment, running, until
from tests.system.live.forked_programs import forked

pytestmark = [pytest.mark.live, pytest.mark.ptrace]

_IMPORTS = """
import os, socket, sys, threading, time
import torch, torch.distributed as dist
"""

_SERVES = _IMPORTS + "listener = socket.create_server(('127.0.0.1', 0))\n"
_HOLDS = READY + "time.sleep(600)\n"

_SPAWNING = """
meeting, workers = sys.argv[1], int(sys.argv[2])
for rank in range(2):
    if not os.fork():
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
        dist.new_group([rank], use_local_synchronization=True)
        for _ in range(workers):
            if not os.fork():
                time.sleep(600)
        dist.barrier()
        if rank == 0:
            print("ready", flush=True)
        time.sleep(600)
time.sleep(600)
"""
"""Like `mp.spawn`: the rank is an argument, and the launcher has PyTorch loaded, too."""

_FIRST_FORKS = """
meeting = sys.argv[1]
rank = 0 if os.fork() else 1
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
dist.new_group([rank], use_local_synchronization=True)
dist.barrier()
if not os.fork():
    threading.Thread(target=time.sleep, args=[600], daemon=True).start()
elif rank == 0:
    print("ready", flush=True)
time.sleep(600)
"""
"""Rank 0 forks the other one; each has a worker with a thread of its own, and a smaller group."""

_WAITING = """
host, port, hosts_store = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "launcher"
if hosts_store:
    store = dist.TCPStore(host, port, world_size=3, is_master=True, wait_for_workers=False)
for rank in (1,) if hosts_store else (0, 1):
    if not os.fork():
        dist.init_process_group("gloo", init_method=f"tcp://{host}:{port}", rank=rank, world_size=3)
print("ready", flush=True)
time.sleep(600)
"""
"""Rank 2 never comes, and where the launcher hosts the store rank 0 does not either."""

_FIRST_WAITS = """
import subprocess
rank, meeting = int(sys.argv[1]), sys.argv[2]
if rank == 0:
    subprocess.Popen([sys.executable, "-c", sys.argv[3], "1", meeting, sys.argv[3]])
    print("ready", flush=True)
else:
    sys.stdin.readline()
dist.init_process_group("gloo", init_method=f"tcp://{meeting}", rank=rank, world_size=2)
time.sleep(600)
"""
"""Rank 0 is the parent of the others, as Lightning has it, and waits for one that comes when it is told to."""

_LONE = """
print("ready", flush=True)
for line in sys.stdin:
    if line == "leave\\n":
        dist.destroy_process_group()
    else:
        dist.init_process_group("gloo", init_method=line.strip(), rank=0, world_size=1)
    print("ready", flush=True)
"""

_ALONE = """
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""

_HOSTILE = """
import ctypes, struct
lib = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
def vtable(name):
    return ctypes.addressof(ctypes.c_char.in_dll(lib, f"_ZTVN4c10d{name}E")) + 16
kept = ctypes.create_string_buffer(64 * 20_000)
base = (ctypes.addressof(kept) + 63) // 64 * 64
def put(index, *words):
    ctypes.memmove(base + 64 * index, struct.pack(f"<{len(words)}Q", *words), 8 * len(words))
put(0, vtable("11PrefixStore"), 1, 0, base + 40, 0, 0, 0, base)  # holds itself
for index in range(1, 15_000):
    put(index, vtable("12ProcessGroup"), 1, base if index % 2 else index, index)
listener = socket.create_server(("127.0.0.1", 0))
print("ready", flush=True)
time.sleep(600)
"""


def found_by(node: Node, job: str) -> dict[int, Rank]:
    """Return the ranks of a job, by rank."""
    found = node.find(Deadline(30.0)).ranks
    return {rank.identity.rank: rank for rank in found if rank.identity.job == job}


def here() -> Node:
    """Return this machine."""
    return Node(ProcFs(), "here", ThreadPool())


@pytest.mark.parametrize("env", [{}, rank_environment(0, world_size=1)], ids=["bare", "stale"])
def test_ranks_that_no_variable_names(env: dict[str, str], tmp_path: Path) -> None:
    """Rank, size and the name of the job are those of the process group, whatever the shell has handed down."""
    job = f"{HERE}:{free_port()}"
    with forked(_IMPORTS + _SPAWNING, f"tcp://{job}", "2", env=env, folder=tmp_path) as launcher:
        node = here()
        ranks = until(lambda: found_by(node, job), lambda found: len(found) == 2)
        assert {rank.identity.world_size for rank in ranks.values()} == {2}
        assert {rank.stat.parent_pid for rank in ranks.values()} == {launcher.pid}
        assert [len(rank.children) for rank in ranks.values()] == [2, 2]
        assert all(rank.identity.launcher is None for rank in ranks.values())


def test_ranks_that_rank_0_has_forked(tmp_path: Path) -> None:
    """They are found, also where all of them are searched for the first time at once; their workers are no ranks."""
    job = f"{HERE}:{free_port()}"
    with forked(_IMPORTS + _FIRST_FORKS, f"tcp://{job}", env={}, folder=tmp_path) as process:
        ranks = waiting_at(here(), job, 2)
        assert (ranks[0].stat.pid, ranks[1].stat.parent_pid) == (process.pid, process.pid)
        assert {rank.identity.world_size for rank in ranks.values()} == {2}
        assert [len(rank.children) for rank in ranks.values()] == [1, 1]


def waiting_at(node: Node, job: str, count: int) -> dict[int, Rank]:
    """Return the ranks of a job once so many are found, in this search and the next."""
    until(lambda: found_by(node, job), lambda found: len(found) >= count)
    return found_by(node, job)


@pytest.mark.parametrize(("hosting", "expected"), [("rank 0", {0, 1}), ("launcher", {1})])
def test_ranks_that_wait_for_one_that_does_not_come(hosting: str, expected: set[int], tmp_path: Path) -> None:
    """Rank 0 has no process group yet: it is who hosts the store of the others, unless that is their launcher."""
    job = f"{HERE}:{free_port()}"
    with forked(_IMPORTS + _WAITING, *job.split(":"), hosting, env={}, folder=tmp_path) as launcher:
        ranks = waiting_at(here(), job, len(expected))
        assert ranks.keys() == expected
        assert {rank.stat.parent_pid for rank in ranks.values()} == {launcher.pid}
        assert {rank.identity.world_size for rank in ranks.values()} == {3}


def test_rank_0_that_has_started_the_others_waits_for_one() -> None:
    """It is found before anybody has come, and is the same rank of the same job when all have."""
    job = f"{HERE}:{free_port()}"
    command = (sys.executable, "-c", _IMPORTS + _FIRST_WAITS, "0", job, _IMPORTS + _FIRST_WAITS)
    with running(command=command, env={}, stdin=-1) as process:
        node = here()
        (rank,) = waiting_at(node, job, 1).values()
        assert (rank.identity.rank, rank.identity.world_size, rank.stat.pid) == (0, 2, process.pid)
        assert process.stdin is not None
        process.stdin.write("come\n")
        process.stdin.flush()
        ranks = waiting_at(node, job, 2)
        assert (ranks[0].stat.pid, ranks[1].stat.parent_pid) == (process.pid, process.pid)
        assert process.poll() is None


def test_rank_that_joins_one_group_after_another(tmp_path: Path) -> None:
    """A worker that is used again is the rank that it is now; one that has left its group is still who it was."""
    with running(_IMPORTS + _LONE, env={}, stdin=-1) as process:
        node, first, second = here(), f"{HERE}:{free_port()}", tmp_path / f"meeting-{os.getpid()}"

        def tell(line: str) -> None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n"

        assert not any(rank.stat.pid == process.pid for rank in node.find(Deadline(30.0)).ranks)
        tell(f"tcp://{first}")
        assert until(lambda: found_by(node, first), bool)[0].stat.pid == process.pid
        tell("leave")
        assert found_by(node, first)[0].stat.pid == process.pid
        tell(f"file://{second}")
        assert until(lambda: found_by(node, second.name), bool)[0].stat.pid == process.pid
        assert not found_by(node, first)


class Searching:
    """Searches one process again and again."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.search, self.lister = GroupSearch(ProcFs()), Lister(ProcFs())

    def tried(self) -> tuple[bool, bool, bool]:
        """Search it if it is due. Was it, is it told as missing, and has it a group?"""
        listing = self.lister.listing(groups=self.search.groups)
        due = [stat for stat in self.search.due(listing, self.lister) if stat.pid == self.pid]
        self.search.expect(due) if due else None
        self.search.search(due, Deadline(30.0))
        missing = self.search.missing(self.lister.listing(groups=self.search.groups))
        has_group = any(pid == self.pid for pid, _ in self.search.groups)
        return bool(due), any(str(self.pid) in each.detail for each in missing), has_group


def test_process_without_a_group_is_searched_once(tmp_path: Path) -> None:
    """Until it shows a new sign of one."""
    with forked(_SERVES + _HOLDS, env={}, folder=tmp_path) as process:
        one = Searching(process.pid)
        assert [one.tried(), one.tried()] == [(True, False, False), (False, False, False)]


def test_search_that_came_too_late_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of a group run there: who it is stays unknown, is reported, and is tried again."""
    with forked(_IMPORTS + _ALONE + _HOLDS, env={}, folder=tmp_path) as process:
        one = Searching(process.pid)
        monkeypatch.setattr(group_search, "_MOST_BYTES", 4_000_000)
        monkeypatch.setattr(group_search, "_LEAST_SHARE", 1_000_000)
        late = [one.tried() for _ in range(3)]
        assert late == [(True, True, False), (True, True, False), (False, True, False)]
        monkeypatch.undo()
        one.search = one.search.successor()
        assert one.tried() == (True, False, True)


@pytest.fixture
def searched_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., set[int]]:
    """Return in whose memory a node of some options would look for groups."""
    searched: list[int] = []
    monkeypatch.setattr(GroupSearch, "search", lambda _, stats, __: searched.extend(stat.pid for stat in stats))

    def searched_for(*among: int, **options: Any) -> set[int]:
        searched.clear()
        Node(ProcFs(), "here", ThreadPool(), **options).find(Deadline(10))
        return set(searched).intersection(among)

    return searched_for


@pytest.mark.root
def test_memory_of_users_of_whom_nothing_is_told_is_not_searched(
    tmp_path: Path, searched_by: Callable[..., set[int]]
) -> None:
    """But for the parents of forks that became another user: these have their parent's group in their memory."""
    becomes = "child = os.fork()\nif not child:\n    os.setuid(61_234)\n    time.sleep(600)\n"
    with forked(_SERVES + becomes + _HOLDS, env={}, folder=tmp_path) as process:
        (child,) = (child.pid for child in psutil.Process(process.pid).children())

        def searched_for(user: int) -> set[int]:
            return searched_by(process.pid, child, only_users=frozenset({user}))

        until(lambda: searched_for(61_234), lambda found: found == {process.pid, child})
        assert (searched_for(0), searched_for(61_235)) == ({process.pid}, set())


def test_memory_of_torchruns_ranks_that_others_tell_of_is_not_searched(
    tmp_path: Path, searched_by: Callable[..., set[int]]
) -> None:
    """Where an agent tells of some ranks alone, what torchrun calls the others is taken for what they are."""
    env = rank_environment(3, world_size=4, TORCHELASTIC_RUN_ID="split")
    with forked(_SERVES + _HOLDS, env=env, folder=tmp_path) as process:
        found = [searched_by(process.pid, only_ranks=only) for only in (None, "2-3", "0-1")]
        assert found == [{process.pid}, {process.pid}, set()]


def test_who_runs_a_group_is_searched_before_who_only_has_a_socket(tmp_path: Path) -> None:
    """The latter, however old, is searched to its end for nothing, and the time may be over then."""
    with (
        running(_SERVES + _HOLDS, env={}) as process,
        forked(_IMPORTS + _SPAWNING, f"tcp://{HERE}:{free_port()}", "0", env={}, folder=tmp_path) as launcher,
    ):
        search, lister = GroupSearch(ProcFs()), Lister(ProcFs())
        due = search.due(lister.listing(), lister)
        ours = [stat for stat in due if stat.pid == process.pid or stat.parent_pid == launcher.pid]
        assert [stat.parent_pid == launcher.pid for stat in ours] == [True, True, False]


def test_group_is_sought_first_behind_what_the_import_fills() -> None:
    """So that a search ends after some dozen megabytes, however much the rank has in its heap by now."""
    filled = "kept = [bytes(1000) for _ in range(200_000)]\n"
    with (
        running(_IMPORTS + _ALONE + filled + _HOLDS, env={}) as process,
        memory_of(process.pid) as memory,
    ):
        regions = read_mappings(ProcFs(), process.pid)
        (heap,) = (region for region in regions if region.is_heap)
        assert heap.end - heap.start > 200_000_000
        world = find_group(ProcFs(), memory, regions)
        assert world is not None and (world.rank, world.size) == (0, 1)
        assert memory.bytes_read < 48_000_000


def test_smaller_group_is_not_taken_for_the_world_where_the_limits_come_first(tmp_path: Path) -> None:
    """It would give the process another rank: one of a pair has rank 0 there, whoever it is in the world."""
    smaller = "pair = dist.new_group([0])\nfor _ in range(40): dist.new_group([0])\n"
    with forked(_IMPORTS + _ALONE + smaller + _HOLDS, env={}, folder=tmp_path) as process:
        answers = set()
        for size in range(4_000_000, 160_000_000, 2_000_000):
            with open_memory(ProcFs(), ProcFs().stat(process.pid), Deadline(30.0), most_bytes=size) as memory:
                try:
                    world = find_group(ProcFs(), memory, read_mappings(ProcFs(), process.pid))
                except Unavailable:
                    answers.add("not searched")
                else:
                    assert world is None or world.is_first
                    answers.add("none" if world is None else "found")
    assert answers == {"none", "not searched", "found"}


def test_memory_that_is_made_up(tmp_path: Path) -> None:
    """Thousands of objects that look like groups, with stores that hold themselves: none of them is one."""
    with forked(_IMPORTS + _HOSTILE, env={}, folder=tmp_path) as process, memory_of(process.pid) as memory:
        assert find_group(ProcFs(), memory, read_mappings(ProcFs(), process.pid)) is None


def memory_of(pid: int) -> AbstractContextManager[ProcessMemory]:
    """Open the memory of one process."""
    return open_memory(ProcFs(), ProcFs().stat(pid), Deadline(30.0), most_bytes=1 << 34)
