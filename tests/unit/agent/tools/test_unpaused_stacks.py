"""Looks at processes that are blocked in the kernel, hold the GIL or run: nothing returns, and nothing is made up."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.pyspy import dump_stacks
from agent.tools.run_bounded import find_program
from agent.tools.syscall_names import syscall_name
from agent.tools.unpaused_stacks import _Mark, _Reading, agreed, read_unpaused
from shared.missing import Reason
from shared.wire.stacks import Frame, Stacks, StackTable, Thread
from tests.build.processes.processes import READY, running, until

LOOKS = 20

BLOCKED = f"""
import ctypes, fcntl, select, socket, sys, tempfile, threading
{READY}
libc = ctypes.CDLL(None)  # of its calls Python repeats none that returns too early
def block():
    WHAT
block()
open(sys.argv[1], "w").write("it returned")
time.sleep(600)
"""

CALLS = {
    "write": "print(libc.write(os.pipe()[1], b'x' * 10_000_000, 10_000_000))",
    "epoll_wait": "libc.epoll_wait(libc.epoll_create1(0), ctypes.create_string_buffer(64), 1, -1)",
    "clock_nanosleep": "libc.nanosleep((ctypes.c_long * 2)(600, 0), None)",
    "futex": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "connect": """full = socket.socket(socket.AF_UNIX); full.bind(''); full.listen(0)
    others = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    [other.connect(full.getsockname()) for other in others]""",
    "flock": """held, wanted = (open(sys.argv[1] + '.lock', 'w') for _ in range(2))
    fcntl.flock(held, fcntl.LOCK_EX); libc.flock(wanted.fileno(), fcntl.LOCK_EX)""",
    "read": "import pdb; pdb.set_trace()",
}


def look(pid: int, *, native: bool = False) -> Stacks:
    """Take one look, as the source does."""
    return dump_stacks(ProcFs(), pid, find_program("py-spy"), native=native, deadline=Deadline(20))


def times_woken(pid: int) -> int:
    """How often the main thread has gone to sleep: any return of its call would add one."""
    return int(ProcFs().fields(pid, "status")["voluntary_ctxt_switches"])


def functions(stacks: Stacks) -> list[str]:
    """Return the main thread's functions, outermost first."""
    assert stacks.main is not None
    return [frame.function for frame in stacks.stack(stacks.main)]


def wait_until_in(pid: int, call: str) -> None:
    """Wait until the main thread sleeps in a system call."""

    def number() -> int:
        first = ProcFs().text(pid, "syscall").split()[0]
        return int(first) if first.lstrip("-").isdecimal() else -1

    until(lambda: (ProcFs().stat(pid).state, syscall_name(number())), lambda seen: seen == ("S", call))


@pytest.fixture(params=sorted(CALLS))
def blocked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A process in one of these calls, and the file that would tell of the call's return."""
    told = tmp_path / "returned"
    program = BLOCKED.replace("WHAT", CALLS[request.param])
    command = (sys.executable, "-c", program, str(told))
    with running(command=command, stdin=subprocess.PIPE) as process:
        wait_until_in(process.pid, request.param)
        yield process.pid, told


@pytest.mark.ptrace
def test_a_blocked_call_does_not_return(blocked: tuple[int, Path]) -> None:
    """A partial write, an interrupted wait: a hang that a look ends is lost."""
    pid, told = blocked
    before = times_woken(pid)
    for _ in range(LOOKS):
        stacks = look(pid)
        assert "block" in functions(stacks)
        assert not stacks.paused
        assert stacks.main is not None
        assert stacks.main.switches == before
        assert not any(thread.moves for thread in stacks.threads)
    assert times_woken(pid) == before
    assert not told.exists()


@pytest.mark.ptrace
@pytest.mark.parametrize("blocked", ["write", "connect"], indirect=True)
def test_native_frames_are_not_worth_the_end_of_a_call(blocked: tuple[int, Path]) -> None:
    """Such a process is read without them: the kernel tells what holds it."""
    pid, told = blocked
    stacks = look(pid, native=True)
    assert (stacks.native, stacks.paused) == (False, False)
    assert "block" in functions(stacks)
    assert not told.exists()


HOLDS_GIL = f"""
import ctypes, threading
def elsewhere():
    time.sleep(600)
threading.Thread(target=elsewhere, daemon=True).start()
{READY}
def hold():
    ctypes.PyDLL(None).sleep(600)
hold()
"""


@pytest.mark.ptrace
def test_a_process_that_holds_the_gil() -> None:
    """Nobody asks the process, so it need not answer; and who sleeps there keeps the interpreter."""
    with running(HOLDS_GIL) as process:
        wait_until_in(process.pid, "clock_nanosleep")
        stacks = look(process.pid)
        assert look(process.pid, native=True).paused  # whoever asks for native frames gets them
    assert functions(stacks) == ["<module>", "hold"]
    assert stacks.main is not None
    assert (stacks.main.holds_gil, stacks.main.active) == (True, False)


MAY_CALL = {
    "<module>": {"upper", "deep"},
    "upper": {"lower"},
    "lower": {"leaf"},
    "deep": {"deep", "leaf"},
    "leaf": set[str](),
}

BUSY = f"""
def leaf(n): return n * n
def lower(n): return leaf(n) + leaf(n + 1)
def upper(n): return lower(n) + lower(n - 1)
def deep(n): return leaf(n) if n == 0 else deep(n - 1) + leaf(n)
{READY}
while True:
    upper(1)
    deep(20)
"""


@pytest.mark.ptrace
def test_frames_of_a_process_that_runs_are_not_made_up() -> None:
    """Frames come and go while it is read, and this program leaves the same ones behind in each round."""
    made_up = []
    with running(BUSY) as process:
        for _ in range(LOOKS):
            stacks = look(process.pid)
            assert stacks.main is not None
            path = functions(stacks)
            if not all(inner in MAY_CALL[outer] for outer, inner in pairwise(path)):
                made_up.append(path)
            assert stacks.main.active is not False or not stacks.main.moves
    assert not made_up


OUTER, MIDDLE, INNER = (Frame(name, "train.py", line) for name, line in (("main", 1), ("step", 2), ("forward", 3)))


def stacks_of(*frames: Frame, tid: int | None = 7) -> Stacks:
    """One thread; the id is of no thread of any process here, so it is never seen to sleep."""
    table = StackTable()
    thread = Thread(tid=tid, name="worker", active=False, holds_gil=True, frames=tuple(map(table.add, frames)))
    return Stacks(pid=1, paused=False, frames=table.frames, threads=(thread,))


def read_in_turn(*answers: Stacks | Exception) -> Stacks:
    """Read a process of which py-spy says one thing after the other."""
    turns = iter(answers)

    def read() -> Stacks:
        answer = next(turns)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with running() as process:
        return read_unpaused(ProcFs(), process.pid, read)


@pytest.mark.parametrize(
    ("first", "second", "kept", "moves"),
    [
        ((OUTER, MIDDLE), (OUTER, MIDDLE), (OUTER, MIDDLE), False),
        ((OUTER, MIDDLE), (OUTER, MIDDLE, INNER), (OUTER, MIDDLE), True),
        ((OUTER, INNER), (OUTER, MIDDLE), (OUTER,), True),
        ((OUTER, MIDDLE, INNER), (OUTER, MIDDLE._replace(line=9), INNER), (OUTER, MIDDLE._replace(line=9)), True),
        ((INNER,), (OUTER,), (), True),
        ((), (), (), True),
    ],
)
def test_of_a_thread_that_ran_what_two_readings_agree_in(
    first: tuple[Frame, ...], second: tuple[Frame, ...], kept: tuple[Frame, ...], moves: bool
) -> None:
    """Below a line that has changed nothing is sure."""
    found = read_in_turn(stacks_of(*first), stacks_of(*second), stacks_of(*second))
    (thread,) = found.threads
    assert found.stack(thread) == kept
    assert thread.moves is moves
    assert thread.active is None  # whether it holds the GIL asleep is not known of one that ran


def test_two_readings_at_one_moment_are_one() -> None:
    """Who waits for a processor between two frames is read there again, torn in the same way: that is a sample."""
    stacks, waits = stacks_of(OUTER, INNER), _Mark(False, 1, 7, "5000 900 8")
    ran = [_Mark(False, 1, 8 + turn, f"{6000 + turn} 900 9") for turn in range(2)]
    same = agreed([_Reading(stacks, frozenset(), {7: waits})] * 4)
    assert (same.threads[0].moves, same.stack(same.threads[0])) == (True, ())
    twice = agreed([_Reading(stacks, frozenset(), {7: mark}) for mark in (waits, waits, ran[0])])
    assert (twice.threads[0].moves, twice.stack(twice.threads[0])) == (True, (OUTER, INNER))
    thrice = agreed([_Reading(stacks, frozenset(), {7: mark}) for mark in (waits, *ran)])
    assert (thrice.threads[0].moves, thrice.stack(thrice.threads[0])) == (False, (OUTER, INNER))


def test_a_reading_that_fails_is_tried_again() -> None:
    """What py-spy follows may change under its hands."""
    torn = Unavailable(Reason.UNREADABLE, "py-spy failed: Failed to copy PyFrameObject")
    found = read_in_turn(torn, stacks_of(OUTER), torn, stacks_of(OUTER), stacks_of(OUTER))
    assert found.stack(found.threads[0]) == (OUTER,)
    assert not found.threads[0].moves
    found = read_in_turn(torn, stacks_of(OUTER), *[torn] * 6)
    assert found.stack(found.threads[0]) == ()
    with pytest.raises(Unavailable):
        read_in_turn(*[torn] * 7)
    with pytest.raises(Unavailable):
        read_in_turn(Unavailable(Reason.NOT_PERMITTED, "no"))
    with pytest.raises(Gone):
        read_in_turn(Gone("it exited"))
