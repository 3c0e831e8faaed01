"""A process that has built a flight recorder of its own making: it is read over the kernel, as that of any other."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agent.deadline import Deadline
from agent.errors import Gone
from agent.proc.memory.process_memory import ProcessMemory, open_memory
from agent.proc.memory.torch_layouts import read_layouts
from agent.proc.procfs import ProcFs
from agent.sources.recorder.memory.copy_records import NEWEST, copy_recorder
from shared.errors import UnhangError
from tests.build.processes.processes import running
from tests.build.processes.recorder_image import BASE, Operation, RecorderImage

pytestmark = pytest.mark.ptrace

LATEST = read_layouts().layouts[-1]

MAPS_IMAGE = """
import ctypes, mmap, os, sys, time
data = sys.stdin.buffer.read()
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
at = libc.mmap({base}, len(data), 3, 0x100000 | 0x22, -1, 0)  # MAP_FIXED_NOREPLACE | MAP_PRIVATE | MAP_ANONYMOUS
assert at == {base}, hex(at)
ctypes.memmove(at, data, len(data))
print("ready", flush=True)
while {busy}:
    for place in range({base}, {base} + len(data), 8):
        word = ctypes.c_uint64.from_address(place)
        word.value = word.value ^ 0x10
time.sleep(600)
"""


@contextmanager
def holding(image: RecorderImage, *, busy: bool = False) -> Iterator[ProcessMemory]:
    """A process that has the image in its memory, and changes all of it all the time if `busy`; give its memory."""
    program = MAPS_IMAGE.format(base=BASE, busy=busy)
    command = (sys.executable, "-c", program)
    with running(command=command, stdin=subprocess.PIPE, wait=False) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.buffer.write(bytes(image.data))
        process.stdin.close()
        assert process.stdout.readline() == "ready\n"
        with open_memory(ProcFs(), ProcFs().stat(process.pid), Deadline(600), most_bytes=1 << 40) as memory:
            yield memory


def recorder(count: int = 40) -> tuple[RecorderImage, int]:
    """Make a recorder."""
    image = RecorderImage(LATEST)
    operations = [Operation(n, sequence=n + 1) for n in range(count)]
    return image, image.recorder(operations, most=4000, statuses={0: (40, 40, 40)})


def test_recorder_in_the_memory_of_a_process() -> None:
    """The same over the kernel as from a file."""
    image, address = recorder()
    with holding(image) as memory:
        assert list(copy_recorder(memory, address, (LATEST,), None, NEWEST).trace().collective_seq) == list(
            range(1, 41)
        )


def test_memory_that_changes_all_the_time() -> None:
    """Every word flips between two values: a record is whole, or it is refused."""
    image, address = recorder()
    outcomes = []
    with holding(image, busy=True) as memory:
        for _ in range(50):
            try:
                trace = copy_recorder(memory, address, (LATEST,), None, NEWEST).trace()
                outcomes.append(len(trace))
            except UnhangError as error:
                outcomes.append(-len(str(error)))
    assert all(-1000 < outcome <= 40 for outcome in outcomes)


def test_process_that_ends_while_it_is_read() -> None:
    """Gone is what it is, not an empty record."""
    image, address = recorder(2000)
    with holding(image) as memory:
        killer = threading.Timer(0.3, os.kill, (memory.pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(Gone):
            _copy_until_it_fails(memory, address)
        killer.join()


def _copy_until_it_fails(memory: ProcessMemory, address: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        copy_recorder(memory, address, (LATEST,), None, NEWEST)
