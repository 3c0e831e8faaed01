"""Environments of real processes, as they are now and not as they were at their start."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.find.environment import Environments
from agent.find.launchers import NAMES
from agent.proc.memory.elf_symbols import find_variable
from agent.proc.procfs import ProcFs
from tests.build.processes.processes import READY, SLEEP, rank_environment, running, until

pytestmark = pytest.mark.ptrace


def environment_of(pid: int) -> dict[str, str]:
    """Read the allowed variables of a process."""
    procfs = ProcFs()
    return Environments(procfs, NAMES).read(procfs.stat(pid))


SETS_RANK = "import os\nos.environ.update(RANK='5', WORLD_SIZE='9')\n"
FORKS = SETS_RANK + "import time\nif not os.fork():\n    time.sleep(600)\nos.environ['RANK'] = '6'\n"
LONG = "import os\nfor i in range(3000): os.environ[f'X{i}'] = 'y' * 100\nos.environ['MASTER_ADDR'] = 'z' * 100_000\n"
WILD = "import ctypes\nctypes.c_void_p.in_dll(ctypes.CDLL(None), 'environ').value = 0xdead0000dead\n"


@pytest.mark.parametrize(
    ("program", "given", "rank"),
    [
        ("", rank_environment(3), "3"),
        (SETS_RANK, {}, "5"),  # as mp.spawn, Ray and DeepSpeed do it: /proc/PID/environ does not know
        (FORKS, {}, "6"),  # who has forked shares pages with its child until one of them writes
        ("import os\nos.environ['RANK'] = '7'\n", rank_environment(1), "7"),
        (LONG + SETS_RANK, {}, "5"),  # a megabyte costs little and hides nothing on the list
        (WILD, rank_environment(2), "2"),  # a hostile process may put anything into its own memory
    ],
    ids=["at the start", "later", "after a fork", "changed", "long", "wild"],
)
def test_variables_are_told_as_they_are_now(program: str, given: dict[str, str], rank: str) -> None:
    """Those on the list, and nothing else, in bounds."""
    with running(program + SLEEP, env=given) as process:
        found = environment_of(process.pid)
    assert found["RANK"] == rank
    assert "PATH" not in found
    assert len(found.get("MASTER_ADDR", "")) <= 4096


def test_process_that_becomes_another_program() -> None:
    """What was remembered of its memory holds no longer after exec."""
    procfs = ProcFs()
    environments = Environments(procfs, NAMES)
    again = f"os.environ['RANK'] = '8'; os.execv({sys.executable!r}, ['python', '-c', {SETS_RANK + SLEEP!r}])"
    with running(READY + "sys.stdin.readline()\n" + again, env={}, stdin=-1) as process:
        assert "RANK" not in environments.read(procfs.stat(process.pid))
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        assert process.stdout.readline() == "ready\n"
        assert environments.read(procfs.stat(process.pid))["RANK"] == "5"


def own_memory(address: int, size: int) -> bytes:
    """Read our own memory, as that of any process."""
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        try:
            return os.pread(memory.fileno(), size, address)
        except (OSError, OverflowError):
            return b""


def libc_base() -> int:
    """Return where our own libc is loaded."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(int(line.partition("-")[0], 16) for line in lines if "libc.so" in line and " 00000000 " in line)


def test_variable_is_found_where_the_linker_has_it() -> None:
    """The same as the dynamic linker says; not a function of another library, or one that is only used."""
    libc = ctypes.CDLL("libc.so.6")
    for name in (b"environ", b"stdout", b"optind"):
        expected = ctypes.addressof(ctypes.c_void_p.in_dll(libc, name.decode()))
        assert find_variable(own_memory, libc_base(), name) == expected
    for name in (b"no_such_variable", b"", b"environ_", b"PyObject_Call"):
        assert find_variable(own_memory, libc_base(), name) is None


def endless_chains(address: int, size: int) -> bytes:
    """A library whose chains of symbols never end: every bit that would end one is cleared."""
    data = bytearray(own_memory(address, size))
    if size == 256:
        data[::4] = bytes(byte & 0xFE for byte in data[::4])
    return bytes(data)


@pytest.mark.parametrize(
    "read",
    [
        lambda address, size: b"",
        lambda address, size: b"\0" * size,
        lambda address, size: b"\xff" * size,
        lambda address, size: (b"\x7fELF\x02\x01" + b"\xff" * size)[:size],
        lambda address, size: os.urandom(size),
        lambda address, size: b"\x7fELF\x02\x01" + os.urandom(size - 6) if size > 6 else os.urandom(size),
        lambda address, size: own_memory(address, size)[: size - 1],
        lambda address, size: own_memory(address, size) if size > 16 else b"\0" * size,
        endless_chains,
    ],
    ids=["nothing", "zeros", "ones", "absurd", "random", "random header", "short", "no buckets", "endless"],
)
def test_memory_that_makes_no_sense(read: Callable[[int, int], bytes]) -> None:
    """It belongs to the process, which may write anything into it; it costs no time."""
    begun = time.thread_time()
    for _ in range(20):
        find_variable(read, libc_base(), b"no_such_variable")
    assert time.thread_time() - begun < 1


@pytest.mark.root
def test_rank_in_a_container(tmp_path: Path) -> None:
    """Its files lie on layers and under another root; its memory is as readable as any."""
    if subprocess.run(("unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)), check=False).returncode:
        pytest.skip("needs the right to mount, which root in a container may lack")
    layers = "mount -t tmpfs none . && mkdir u w m && mount -t overlay o -o lowerdir=/,upperdir=u,workdir=w m && "
    program = f"import os, time\n{SETS_RANK}print('ready', flush=True)\ntime.sleep(600)\n"
    command = ("unshare", "-m", "sh", "-c", layers + 'exec chroot m "$@"', "sh", sys.executable, "-c", program)
    with running(command=command, cwd=tmp_path, env={"PATH": os.environ["PATH"]}) as process:
        assert environment_of(process.pid)["RANK"] == "5"


def test_python_that_has_just_begun_is_not_given_up() -> None:
    """Its libraries may not be loaded yet: until there is a symbol to find, the variables of the start are used."""
    procfs = ProcFs()
    environments = Environments(procfs, NAMES)
    late = READY + "sys.stdin.readline()\n" + SETS_RANK + SLEEP
    with running(late, env={"RANK": "2"}, stdin=-1) as process:
        find = environments._find_pointer
        environments._find_pointer = lambda pid: None  # type: ignore[method-assign]
        assert environments.read(procfs.stat(process.pid)) == {"RANK": "2"}
        environments._find_pointer = find  # type: ignore[method-assign]
        assert environments.read(procfs.stat(process.pid)) == {"RANK": "2"}
        assert process.stdin is not None
        process.stdin.close()
        until(lambda: environments.read(procfs.stat(process.pid)), lambda found: found.get("RANK") == "5")


def test_other_programs_have_the_variables_of_their_start() -> None:
    """Only Python is taken to change its own."""
    procfs = ProcFs()
    environments = Environments(procfs, NAMES)
    with running(command=("sleep", "600"), env=rank_environment(1), wait=False) as process:
        until(lambda: environments.read(procfs.stat(process.pid)), lambda found: found.get("RANK") == "1")
