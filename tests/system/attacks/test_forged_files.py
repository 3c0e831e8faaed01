"""A file is not the rank's because it lies at a path that everybody knows: dumps, and logs that a variable names."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.job_files import open_named
from agent.proc.procfs import ProcFs
from agent.sources.logs.logs_source import LogsSource
from agent.sources.recorder.dump_files import read_dump_file
from agent.tools.memory_budget import Memory
from shared.errors import NotPermitted
from shared.wire.log_events import Logs
from tests.build.processes.looking import ask_source
from tests.build.processes.processes import find_rank, rank_environment, running
from tests.system.attacks.test_access_lists import naming, set_list
from tests.system.attacks.users import ALICE, BECOME, EVE

pytestmark = [pytest.mark.root, pytest.mark.ptrace]

VICTIM = """
import time
print("ready", flush=True)
print(threading.get_ident(), flush=True)
time.sleep(600)
"""


class Stage(NamedTuple):
    """A rank of Alice's that is told to write its dump and its log into a folder where everybody may write."""

    pid: int
    thread: int
    folder: Path

    @property
    def dump(self) -> Path:
        return self.folder / "trace_0"


@pytest.fixture
def stage(folder: Path) -> Iterator[Stage]:
    open_to_all = folder / "all"
    open_to_all.mkdir()
    open_to_all.chmod(0o1777)
    variables = {
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": f"{open_to_all}/trace_",
        "NCCL_DEBUG_FILE": f"{open_to_all}/nccl.%p",
    }
    program = "import threading\n" + BECOME.format(user=ALICE) + VICTIM
    command = (sys.executable, "-c", program)
    with running(command=command, env=rank_environment(0, port=29493, **variables)) as process:
        assert process.stdout is not None
        yield Stage(process.pid, int(process.stdout.readline()), open_to_all)


def dump_of(thread: int) -> str:
    """A dump of version 2.10 with one operation, issued by a thread."""
    entry = {
        "record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": 1, "p2p_seq_id": 0,
        "op_id": 1, "profiling_name": "nccl:all_reduce", "time_created_ns": 10**18, "input_sizes": [[4]],
        "input_dtypes": ["Float"], "output_sizes": [[4]], "output_dtypes": ["Float"], "state": "scheduled",
        "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": False,
        "timeout_ms": 600_000, "is_p2p": False, "thread_id": str(thread), "thread_name": "python",
    }  # fmt: skip
    return json.dumps({"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": [entry]})


def write(path: Path, text: str, *, owner: int = ALICE, group: int | None = None, mode: int = 0o644) -> None:
    """Write a file as a user."""
    path.write_text(text)
    os.chown(path, owner, owner if group is None else group)
    path.chmod(mode)


def by_another_user(stage: Stage) -> None:
    write(stage.dump, dump_of(stage.thread), owner=EVE)


def by_root(stage: Stage) -> None:
    write(stage.dump, dump_of(stage.thread), owner=0)


def open_to_others(stage: Stage) -> None:
    write(stage.dump, dump_of(stage.thread), mode=0o666)


def open_to_a_group(stage: Stage) -> None:
    write(stage.dump, dump_of(stage.thread), group=100, mode=0o664)


def open_by_a_list(stage: Stage) -> None:
    """Eve may write it, as a folder of hers may have it for every file that is made in it."""
    write(stage.dump, dump_of(stage.thread))
    set_list(stage.dump, naming(EVE, 6))


def second_name(stage: Stage) -> None:
    """Eve has linked what Alice wrote for another job."""
    write(stage.folder / "old", dump_of(stage.thread))
    os.link(stage.folder / "old", stage.dump)


def link(stage: Stage) -> None:
    write(stage.folder / "old", dump_of(stage.thread))
    stage.dump.symlink_to(stage.folder / "old")


def fifo(stage: Stage) -> None:
    os.mkfifo(stage.dump)


def word_of_the_interpreter(stage: Stage) -> None:
    """An address in the interpreter's data at which its own address stands, as in every process of it."""
    write(stage.dump, dump_of(points_to_itself(stage.pid)))


def beside_a_thread(stage: Stage) -> None:
    write(stage.dump, dump_of(stage.thread + 16))


ATTACKS: tuple[Callable[[Stage], None], ...] = (
    by_another_user,
    by_root,
    open_to_others,
    open_to_a_group,
    open_by_a_list,
    second_name,
    link,
    fifo,
    word_of_the_interpreter,
    beside_a_thread,
)


def points_to_itself(pid: int) -> int:
    """Find such a word among the data of what a process has mapped from files."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            where, rights, *_, path = line.split()
            if "w" not in rights or not path.startswith("/"):
                continue
            start, end = (int(word, 16) for word in where.split("-"))
            with suppress(OSError):
                memory.seek(start)
                words = memoryview(memory.read(end - start)).cast("Q")
                found = next((start + 8 * at for at, word in enumerate(words) if word == start + 8 * at), None)
                if found is not None:
                    return found
    pytest.skip("this interpreter has no such word")


def record_of(stage: Stage) -> object:
    """What the agent takes for the rank's own dump."""
    return read_dump_file(ProcFs(), find_rank(stage.pid), Memory(), Deadline(60))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_forged_dump_is_not_the_ranks(stage: Stage, attack: Callable[[Stage], None]) -> None:
    """Whoever put it there, and whatever it says."""
    attack(stage)
    try:
        assert record_of(stage) is None
    except Unavailable as error:
        assert "trace_0" in str(error)  # noqa: PT017


def test_own_dump_is_the_ranks(stage: Stage) -> None:
    """Also where its group, which is the user's own, may write it."""
    write(stage.dump, dump_of(stage.thread), mode=0o664)
    assert record_of(stage) is not None


def test_file_that_is_exchanged_all_the_time(stage: Stage) -> None:
    """What was checked is what is read: Eve's file lies there every other moment."""
    own, forged = stage.folder / "own", stage.folder / "forged"
    write(own, dump_of(stage.thread))
    write(forged, dump_of(stage.thread).replace("all_reduce", "broadcast"), owner=EVE)
    exchange = f"""
import ctypes
libc = ctypes.CDLL(None)
print("ready", flush=True)
while True:
    libc.renameat2(-100, b"{own}", -100, b"{forged}", 2)
"""
    owners, end, refused = frozenset({ALICE}), time.monotonic() + 2.0, 0
    with running(exchange):
        while time.monotonic() < end:
            try:
                with open_named(ProcFs(), stage.pid, str(own), (), owners=owners) as opened:
                    assert b"all_reduce" in os.pread(opened, 65_536, 0)
            except (Unavailable, NotPermitted):
                refused += 1
    assert refused > 0


@pytest.mark.parametrize(("owner", "taken"), [(ALICE, True), (EVE, False)])
def test_log_that_a_variable_names(stage: Stage, owner: int, taken: bool) -> None:
    """NCCL's log of a rank is evidence, and lies where everybody may write."""
    line = f"host:{stage.pid}:1 [0] NCCL WARN Call to connect to 10.0.0.7<4000> failed : Connection refused\n"
    write(stage.folder / f"nccl.{stage.pid}", line, owner=owner)
    try:
        found = ask_source(LogsSource(), find_rank(stage.pid))
    except Unavailable as error:
        assert not taken and "is not taken for the rank's" in str(error)  # noqa: PT017
        return
    assert isinstance(found, Logs)
    assert any(file.path.endswith(f"nccl.{stage.pid}") for file in found.files) == taken
