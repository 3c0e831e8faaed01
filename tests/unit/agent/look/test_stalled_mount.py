"""A rank in uninterruptible sleep on a file system that does not answer: told of whole, and nothing of ours hangs."""

import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent import Agent, RankFilter
from agent.settings import AgentSettings
from agent.sources.fds import FdsSource
from agent.sources.source import LookDepth
from shared.missing import Missing
from shared.wire.snapshot import Fds
from shared.wire.stacks import Stacks
from tests.build.processes.looking import ask_source, rank_of
from tests.build.processes.processes import HERE, READY, rank_environment, running, until
from tests.unit.agent.sources.test_process import process_of

pytestmark = [pytest.mark.root, pytest.mark.ptrace]

PORT = 29417


_NO_SET_UID_NO_DEVICES = 6
_DETACH = 2


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A file system that never answers, as an NFS server that has died: FUSE without anybody who serves it.

    Whoever waits for it when the test ends gets an error.
    """
    point, library = tmp_path / "data", ctypes.CDLL(None, use_errno=True)
    try:
        channel = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    point.mkdir()
    options = f"fd={channel},rootmode=40000,user_id=0,group_id=0".encode()
    done = library.mount(b"nas1:/export", str(point).encode(), b"fuse", _NO_SET_UID_NO_DEVICES, options)
    number = ctypes.get_errno()
    try:
        if done != 0:
            pytest.skip(f"not allowed to mount: {os.strerror(number)}")
        yield point
    finally:
        os.close(channel)
        library.umount2(str(point).encode(), _DETACH)


def reads(path: Path) -> str:
    """A program that holds the mount's root, and whose code there opens a file."""
    held = f"import os\nheld = os.open({str(path.parent)!r}, os.O_PATH)\n"
    code = f"def load_shard():\n    open({str(path)!r})\nload_shard()\n"
    return READY + held + f"exec(compile({code!r}, {str(path.with_name('train.py'))!r}, 'exec'))\n"


def test_kernel_tells_what_a_rank_is_blocked_on(mount: Path) -> None:
    """The call, the path, the file system and the kernel's functions, without touching any of it."""
    with running(reads(mount / "shard-3")) as process:
        found = until(lambda: process_of(process.pid), lambda p: p.state == "D")
        fds = ask_source(FdsSource(), rank_of(process.pid))
    assert found.syscall is not None
    assert (found.syscall.name, found.syscall.target) == ("openat", str(mount / "shard-3"))
    assert found.syscall.file_system == "fuse"
    assert any(frame.startswith("fuse_") for frame in found.kernel_stack)
    assert isinstance(fds, Fds)
    (used,) = (each for each in fds.mounts if each.point == str(mount))
    assert (used.file_system, used.source, used.remote, used.files) == ("fuse", "nas1:/export", True, 1)


def test_thread_that_is_blocked_beside_the_main_one(mount: Path) -> None:
    """As one that saves a checkpoint while the main thread waits for it."""
    program = f"import threading\nt = threading.Thread(target=open, args=({str(mount / 'ckpt')!r},), name='saver')\n"
    with running(program + READY + "t.start()\nt.join()\n") as process:
        found = until(lambda: process_of(process.pid), lambda p: p.state == "S" and p.blocked_threads != ())
    (thread,) = found.blocked_threads
    assert thread.tid != process.pid
    assert thread.syscall == "openat"
    assert any("fuse" in frame for frame in thread.kernel_stack)


def test_agent_answers_in_time_for_all_its_ranks(mount: Path) -> None:
    """Look after look: the blocked one with its stack, its neighbour as ever, and nothing is left behind."""
    agent = Agent(AgentSettings(host_name="here", beat_seconds=0, look_timeout_seconds=60))
    choice = RankFilter(job=f"{HERE}:{PORT}")
    environment = [rank_environment(rank, port=PORT) for rank in (0, 1)]
    with running(env=environment[0]) as well, running(reads(mount / "shard-3"), env=environment[1]) as blocked:
        until(lambda: process_of(blocked.pid), lambda p: p.state == "D")
        for _ in range(3):
            begun = time.monotonic()
            taken = agent.snapshot(choice, LookDepth())
            assert time.monotonic() - begun < 30
            assert [rank.identity.pid for rank in taken.ranks] == [well.pid, blocked.pid]
            stacks = [rank.stacks for rank in taken.ranks]
            assert isinstance(stacks[0], Stacks)
            assert isinstance(stacks[1], Stacks)
            names = [frame.function for frame in stacks[1].stack(stacks[1].main)]  # type: ignore[arg-type]
            assert "load_shard" in names
            assert all(not isinstance(part, Missing) for rank in taken.ranks for part in (rank.process, rank.fds))
        assert agent.node.abandoned == 0
    agent.stop()
