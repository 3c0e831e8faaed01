"""Environments of real processes, as they are now and not as they were at their start."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.elf_symbols import find_symbol
from agent.environment import Environments
from agent.launchers import NAMES
from agent.procfs import ProcFs
from tests.agent.processes import READY, SLEEP, rank_environment, running, until

pytestmark = pytest.mark.ptrace


def environment_of(pid: int) -> dict[str, str]:
    """Read the allowed variables of a process."""
    procfs = ProcFs()
    return Environments(procfs, NAMES).read(procfs.stat(pid))


def test_variables_of_the_start() -> None:
    """Those on the list, and nothing else."""
    with running(env=rank_environment(3)) as process:
        found = environment_of(process.pid)
    assert found["RANK"] == "3"
    assert "PATH" not in found


SETS_RANK = "import os\nos.environ.update(RANK='5', WORLD_SIZE='9')\n"


def test_rank_that_is_set_after_the_start() -> None:
    """As mp.spawn, Ray and DeepSpeed do it: /proc/PID/environ does not know."""
    with running(SETS_RANK + SLEEP, env={}) as process:
        assert b"RANK" not in Path(f"/proc/{process.pid}/environ").read_bytes()
        found = environment_of(process.pid)
    assert (found["RANK"], found["WORLD_SIZE"]) == ("5", "9")


def test_rank_that_a_forked_child_sets() -> None:
    """The child of a fork shares its parent's pages until it writes."""
    program = SETS_RANK + "if os.fork():\n    os.environ['RANK'] = '6'\n" + SLEEP
    with running(program, env={}) as process:
        assert environment_of(process.pid)["RANK"] == "6"


def test_variable_that_is_changed_is_told_as_it_is_now() -> None:
    """The present goes before the past."""
    with running("import os\nos.environ['RANK'] = '7'\n" + SLEEP, env=rank_environment(1)) as process:
        assert environment_of(process.pid)["RANK"] == "7"


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


def test_many_and_long_variables_are_read_in_bounds() -> None:
    """An environment of a megabyte costs little and hides nothing on the list."""
    program = (
        "import os\nfor i in range(3000): os.environ[f'X{i}'] = 'y' * 100\nos.environ['MASTER_ADDR'] = 'z' * 100_000\n"
        + SETS_RANK
    )
    with running(program + SLEEP, env={}) as process:
        found = environment_of(process.pid)
    assert found["RANK"] == "5"
    assert len(found["MASTER_ADDR"]) <= 4096


def test_environment_pointer_that_leads_nowhere() -> None:
    """A hostile process may put anything into its own memory; the frozen variables remain."""
    wild = "import ctypes\nctypes.c_void_p.in_dll(ctypes.CDLL(None), 'environ').value = 0xdead0000dead\n"
    with running(wild + SLEEP, env=rank_environment(2)) as process:
        assert environment_of(process.pid)["RANK"] == "2"


def test_program_without_a_libc_of_its_own() -> None:
    """Where there is no symbol to find, the variables of the start are used."""
    procfs = ProcFs()
    environments = Environments(procfs, NAMES)
    with running(env=rank_environment(2)) as process:
        environments._find_pointer = lambda pid: None  # type: ignore[method-assign]
        assert environments.read(procfs.stat(process.pid))["RANK"] == "2"


def test_symbol_is_found_in_this_libc() -> None:
    """The variable lies in the data of the library, not in its text."""
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    offset = find_symbol(libc, "environ")
    assert offset is not None
    assert offset > 4096
    assert find_symbol(libc, "no_such_variable") is None


def _truncated(path: Path) -> None:
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    path.write_bytes(Path(libc).read_bytes()[:5000])


def _endless_hash_chain(path: Path) -> None:
    """A symbol table whose chains never end: every bit that would end one is cleared."""
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line)
    data = bytearray(Path(libc).read_bytes())
    from elftools.elf.elffile import ELFFile

    with open(libc, "rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.hash")
        start, size = section["sh_offset"], section["sh_size"]
    for position in range(start + size // 3, len(data) - 4, 4):
        data[position] &= 0xFE
    path.write_bytes(data)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\x7fELF" + b"\xff" * 5000),
        lambda path: path.write_bytes(os.urandom(5000)),
        lambda path: os.mkfifo(path),
        lambda path: path.mkdir(),
        _truncated,
        _endless_hash_chain,
    ],
    ids=["empty", "absurd", "random", "fifo", "folder", "truncated", "endless"],
)
def test_file_that_is_no_library(make: Callable[[Path], object], tmp_path: Path) -> None:
    """It belongs to the process that has it mapped, which may have made it up."""
    path = tmp_path / "libc.so.6"
    make(path)
    assert find_symbol(str(path), "environ") is None


def test_rank_is_seen_soon_after_it_is_set() -> None:
    """A lister that has seen a process without RANK sees it with RANK later."""
    procfs = ProcFs()
    environments = Environments(procfs, NAMES)
    late = READY + "time.sleep(0.2)\nos.environ['RANK'] = '4'\ntime.sleep(600)\n"
    with running(late, env={}) as process:
        until(lambda: environments.read(procfs.stat(process.pid)), lambda found: found.get("RANK") == "4")


def test_python_that_has_just_begun_is_not_given_up() -> None:
    """Its libraries may not be loaded yet when it is seen first."""
    procfs = ProcFs()
    environments = Environments(procfs, NAMES)
    with running(SETS_RANK + SLEEP, env={}) as process:
        find = environments._find_pointer
        environments._find_pointer = lambda pid: None  # type: ignore[method-assign]
        assert environments.read(procfs.stat(process.pid)) == {}
        environments._find_pointer = find  # type: ignore[method-assign]
        assert environments.read(procfs.stat(process.pid))["RANK"] == "5"


def test_other_programs_have_the_variables_of_their_start() -> None:
    """Only Python is taken to change its own."""
    procfs = ProcFs()
    environments = Environments(procfs, NAMES)
    with running(command=("sleep", "600"), env=rank_environment(1), wait=False) as process:
        until(lambda: environments.read(procfs.stat(process.pid)), lambda found: found.get("RANK") == "1")
