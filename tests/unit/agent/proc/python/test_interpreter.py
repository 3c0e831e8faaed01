"""Threads, frames and objects of real interpreters, read from their memory; and of memory that is damaged."""

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.proc.memory.mappings import read_mappings
from agent.proc.memory.process_memory import ProcessMemory, Unreadable, open_memory
from agent.proc.procfs import ProcFs
from agent.proc.python.interpreter import Interpreter
from tests.build.processes.processes import running
from tests.build.processes.pythons import pythons

pytestmark = pytest.mark.ptrace

PROGRAM = """
import ctypes, os, threading

class Thing:
    def __init__(self):
        self.name, self.number, self.items = "näme", -(1 << 70), [1, "two", (3, "日本")]

class Descriptor(int):
    '''As methods of PyTorch's classes are: functions of C that are told what they are called on.'''
    get = ctypes.pythonapi.PyInstanceMethod_New
    get.restype, get.argtypes = ctypes.py_object, [ctypes.py_object]
    get = get(os.read)

def inner(thing, keys, end):
    captured = True
    def closure():
        return captured
    if len(keys) == 3:
        thing.__dict__["late"] = None
    print(os.getpid(), threading.get_native_id(), flush=True)
    end.get(17)

def outer(keys):
    inner(Thing(), keys, Descriptor(os.pipe()[0]))
"""
LINES = [
    (name, PROGRAM[: PROGRAM.index(there)].count("\n") + 1)
    for name, there in (("inner", "end.get"), ("outer", "    inner("))
]

PLACES = {
    "the main thread": "outer(['k1', 'k2'])",
    "another thread": "threading.Thread(target=outer, args=(['k1', 'k2'],)).start()",
    "a fork": "os.fork() or outer(['k1', 'k2'])\nos.wait()",
    "with a dict of its own": "outer(['k1', 'k2', 'k3'])",
}


@contextmanager
def waiting(place: str, python: str) -> Iterator[tuple[int, int]]:
    """A process with a thread in `end.get(17)`; its id, and the thread's."""
    with running(command=[python, "-c", f"{PROGRAM}\n{PLACES[place]}"], wait=False) as process:
        assert process.stdout is not None
        pid, tid = map(int, process.stdout.readline().split())
        while Path(f"/proc/{pid}/task/{tid}/syscall").read_text().split()[0] != "0":
            pass
        yield pid, tid


@contextmanager
def interpreter(pid: int) -> Iterator[Interpreter]:
    """The Python of a process."""
    with open_memory(ProcFs(), ProcFs().stat(pid), Deadline(30)) as memory:
        yield Interpreter(memory, read_mappings(ProcFs(), pid))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_a_thread_is_read_as_it_stands(python: str, place: str) -> None:
    """Its frames with their lines, their variables, what objects hold, and the function of C that it waits in."""
    with waiting(place, python) as (pid, tid), interpreter(pid) as here:
        frames, objects = here.frames(here.threads()[tid]), here.objects
        assert [(frame.function, frame.line) for frame in frames[:2]] == LINES
        told = here.variables(frames[0])
        assert objects.number(told["captured"]) == 1
        assert [objects.text(key) for key in objects.items(told["keys"])][:2] == ["k1", "k2"]
        held = here.attributes(told["thing"])
        assert held.keys() - {"late"} == {"name", "number", "items"}
        assert objects.text(held["name"]) == "näme"
        assert objects.number(held["number"]) == -(1 << 70)
        *_, last = objects.items(held["items"])
        assert objects.text(objects.items(last)[1]) == "日本"
        call = next(here.calls(frames[0]))
        assert (call.function, call.of) == ("read", told["end"])
        assert [objects.number(argument) for argument in call.arguments] == [17]


def test_who_has_no_such_thread() -> None:
    """Another thread's number, and a process without any Python."""
    with waiting("the main thread", sys.executable) as (pid, _), interpreter(pid) as here:
        assert pid in here.threads()
        assert os.getpid() not in here.threads()
    with running(command=["sleep", "600"], wait=False) as process:
        while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
            pass
        with pytest.raises(Unreadable), interpreter(process.pid):
            pass


class _Copied(ProcessMemory):
    """Pages of a process as they were read once, and damaged then."""

    def __init__(self, pages: dict[int, bytes]) -> None:
        super().__init__(-1, os.getpid(), Deadline(30))
        self.pages = pages

    def read_some(self, address: int, size: int) -> bytes:
        first, last = address // 4096, (address + size - 1) // 4096
        whole = b"".join(self.pages.get(page, b"") for page in range(first, last + 1))
        return whole[address % 4096 :][:size]


class _Copying(_Copied):
    """Reads a process's memory, and keeps the pages."""

    def __init__(self, memory: ProcessMemory) -> None:
        super().__init__({})
        self._memory = memory

    def read_some(self, address: int, size: int) -> bytes:
        for page in range(address // 4096, (address + size - 1) // 4096 + 1):
            self.pages.setdefault(page, self._memory.read_some(page * 4096, 4096))
        return super().read_some(address, size)


def _read_all(here: Interpreter, tid: int) -> None:
    for frame in here.frames(here.threads()[tid]):
        for value in here.variables(frame).values():
            here.attributes(value)
        for call in here.calls(frame):
            here.objects.type_name(call.of)


@pytest.mark.parametrize("python", pythons().values(), ids=pythons())
def test_damaged_memory_is_refused_and_costs_little(python: str) -> None:
    """Words that lead elsewhere, in circles or nowhere, counts without end, freed memory: told, and never more."""
    with waiting("the main thread", python) as (pid, tid):
        regions = read_mappings(ProcFs(), pid)
        with open_memory(ProcFs(), ProcFs().stat(pid), Deadline(30)) as memory:
            copying = _Copying(memory)
            _read_all(Interpreter(copying, regions), tid)
    choose = random.Random(1)
    words = [page * 4096 + 8 * choose.randrange(512) for page in copying.pages] + [0, 8, 1 << 62, (1 << 64) - 1]
    read = 0
    for _ in range(300):
        pages = dict(copying.pages)
        for page in choose.sample(sorted(pages), 12):
            data = bytearray(pages[page])
            for _ in range(60):
                at = 8 * choose.randrange(512)
                data[at : at + 8] = choose.choice(words).to_bytes(8, "little")
            pages[page] = bytes(data)
        copied = _Copied(pages)
        try:
            _read_all(Interpreter(copied, regions), tid)
            read += 1
        except (Unavailable, Gone, KeyError):
            pass
    assert read < 300
