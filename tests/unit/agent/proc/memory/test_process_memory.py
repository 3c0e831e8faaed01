"""The memory of real processes: what is there is read exactly, and what is not is told."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.proc.memory.mappings import MemoryRegion, read_mappings, writable_data
from agent.proc.memory.process_memory import ProcessMemory, Unreadable, open_memory
from agent.proc.memory.search import search_words
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted
from shared.missing import Reason
from tests.build.processes.processes import running, until

pytestmark = pytest.mark.ptrace

HOLDS_BYTES = """
import ctypes, os, sys, time
text = ctypes.create_string_buffer(b"what the process holds" + bytes(3_000_000))
words = (ctypes.c_uint64 * 4096)(*[0x7E0000001000 + i % 7 for i in range(4096)])
print(ctypes.addressof(text), ctypes.addressof(words), flush=True)
for line in sys.stdin:
    if line == "exec\\n":
        os.execv(sys.executable, [sys.executable, "-c", "import time; print('executed', flush=True); time.sleep(600)"])
time.sleep(600)
"""


@contextmanager
def holder() -> Iterator[tuple["subprocess.Popen[str]", int, int]]:
    """A process with a text and words in its memory, and their addresses."""
    with running(HOLDS_BYTES, wait=False, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        text, words = map(int, process.stdout.readline().split())
        yield process, text, words


def memory_of(pid: int, seconds: float = 60.0, *, most: int = 1 << 30) -> AbstractContextManager[ProcessMemory]:
    """Open the memory of a process."""
    return open_memory(ProcFs(), ProcFs().stat(pid), Deadline(seconds), most_bytes=most)


def data_of(pid: int) -> tuple[MemoryRegion, ...]:
    """Return where a process has objects of its own."""
    return writable_data(read_mappings(ProcFs(), pid))


def test_bytes_and_words_are_read_and_what_is_none_is_told() -> None:
    """Exactly those, whatever the process does meanwhile: it is stopped here. Pointers and lengths may be anything."""
    with holder() as (process, text, words), memory_of(process.pid) as memory:
        os.kill(process.pid, signal.SIGSTOP)
        assert memory.read(text, 22) == b"what the process holds"
        assert memory.words(words, 3) == (0x7E0000001000, 0x7E0000001001, 0x7E0000001002)
        assert memory.word(words + 8) == 0x7E0000001001
        assert memory.bytes_read == 22 + 24 + 8
        for address in (0, 1, 4096, 0x7FFF_FFFF_F000, 1 << 56, 1 << 63, (1 << 64) - 8, 1 << 80, -8):
            assert (memory.read_some(address, 8), memory.read_into(bytearray(8), address)) == (b"", 0)
            with pytest.raises(Unreadable):
                memory.word(address)
        stack = next(region for region in read_mappings(ProcFs(), process.pid) if region.path == "[stack]")
        assert len(memory.read_some(stack.end - 16, 64)) == 16
        for address, size in ((stack.end - 16, 64), (text, -1), (text, 4 * 1024 * 1024 + 1), (text, 1 << 62)):
            with pytest.raises(Unreadable):
                memory.read(address, size)


def test_budget_and_deadline() -> None:
    """Many reads come to an end like one large one."""
    with holder() as (process, text, _), memory_of(process.pid, most=100) as memory:
        memory.read(text, 60)
        with pytest.raises(Unavailable) as caught:
            memory.read(text, 60)
        assert caught.value.reason is Reason.REFUSED
        with memory_of(process.pid, 0.0) as late, pytest.raises(Unavailable) as caught:
            late.read(text, 1)
        assert caught.value.reason is Reason.TIMED_OUT


def test_process_that_exits() -> None:
    """It is gone, and so is its memory, whoever has its number next: that one is known by when it started."""
    with holder() as (process, text, _), memory_of(process.pid) as memory:
        found = ProcFs().stat(process.pid)
        with pytest.raises(Gone):
            open_memory(ProcFs(), found._replace(start_ticks=found.start_ticks + 1), Deadline(10)).__enter__()
        assert memory.read(text, 4) == b"what"
        process.kill()
        process.wait()
        with pytest.raises(Gone):
            memory.read(text, 4)
        with pytest.raises(Gone):
            open_memory(ProcFs(), found, Deadline(10)).__enter__()


def test_process_that_executes_another_program() -> None:
    """What it runs then may have other rights, and is never read through the old file."""
    with holder() as (process, text, _), memory_of(process.pid) as memory:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("exec\n")
        process.stdin.flush()
        assert process.stdout.readline() == "executed\n"
        with pytest.raises(Gone):
            memory.read(text, 4)


@pytest.mark.root
def test_process_with_gained_rights() -> None:
    """Not its user's own: nothing of it is read, though the kernel would let us."""
    gains = "import os, time\nos.setresuid(61002, 61003, 61002)\nprint('ready', flush=True)\ntime.sleep(600)\n"
    with running(gains) as process, pytest.raises(NotPermitted):
        memory_of(process.pid).__enter__()


def test_words_are_found_where_they_stand() -> None:
    """All that are aligned, with what each is."""
    with holder() as (process, _, words), memory_of(process.pid) as memory:
        result = search_words(ProcFs(), memory, data_of(process.pid), [0x7E0000001002, 0x7E0000001005])
    found = [word for word in result.found if words <= word.address < words + 8 * 4096]
    assert result.is_complete
    assert [word.value for word in found[:3]] == [0x7E0000001002, 0x7E0000001005, 0x7E0000001002]
    assert [word.address for word in found[:2]] == [words + 16, words + 40]
    assert len(found) == sum(1 for i in range(4096) if i % 7 in (2, 5))


@pytest.mark.parametrize("value", [0x7E0000001000, 0x7E7E7E7E7E7E, 0x7EAB7EAB7EAB])
def test_values_that_begin_like_much_else(value: int) -> None:
    """As with zero, or as they go on themselves, so that what only looks like one overlaps one."""
    holds = (
        f"import ctypes, time\nvalue = {value}\n"
        "near = (value << 16 | value >> 32) & (1 << 64) - 1\n"
        "words = (ctypes.c_uint64 * 4096)(*[value, near, near, value << 8 & (1 << 64) - 1] * 1024)\n"
        "print(ctypes.addressof(words), flush=True)\ntime.sleep(600)\n"
    )
    with running(holds, wait=False) as process:
        assert process.stdout is not None
        words = int(process.stdout.readline())
        with memory_of(process.pid) as memory:
            result = search_words(ProcFs(), memory, data_of(process.pid), [value])
    found = [word.address for word in result.found if words <= word.address < words + 8 * 4096]
    assert found == [words + 32 * place for place in range(1024)]


def test_search_that_runs_out_of_budget() -> None:
    """It says that it has not seen everything."""
    with holder() as (process, _, _), memory_of(process.pid, most=1 << 20) as few, memory_of(process.pid, 0.0) as late:
        for memory in (few, late):
            assert not search_words(ProcFs(), memory, data_of(process.pid), [0x7E0000001002]).is_complete
            assert memory.bytes_read <= 1 << 21


RESERVES = """
import mmap, time
large = mmap.mmap(-1, 1 << 36, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
large[1 << 35] = 1
print("ready", flush=True)
time.sleep(600)
"""


def test_memory_that_is_only_reserved_is_not_searched() -> None:
    """Sixty-four gigabytes of nothing cost no time, and the process does not grow by being looked at."""
    with running(RESERVES) as process:
        until(lambda: ProcFs().stat(process.pid).state, lambda state: state == "S")
        regions = data_of(process.pid)
        assert any(region.end - region.start >= 1 << 36 for region in regions)
        before = ProcFs().stat(process.pid).rss_bytes
        with memory_of(process.pid) as memory:
            assert search_words(ProcFs(), memory, regions, [0x7E0000001002]).is_complete
        assert ProcFs().stat(process.pid).rss_bytes - before < 1 << 20
