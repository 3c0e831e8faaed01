"""Files, functions and lines of code objects: of this Python from real memory, of others as they would lie there."""

import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType

import pytest

from agent.deadline import Deadline
from agent.proc.memory.paged import PagedMemory
from agent.proc.memory.process_memory import ProcessMemory, Unreadable
from agent.proc.memory.torch_layouts import read_layouts
from agent.proc.python.code_objects import (
    _VERSIONS,
    CodeObjects,
    line_of,
    lines_of_310,
    lines_since_311,
    lines_until_39,
)
from agent.proc.python.objects import PythonObjects
from agent.sources.recorder.memory.call_sites import CallSites
from tests.build.processes.recorder_image import RecorderImage

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
LATEST = read_layouts().layouts[-1]


@contextmanager
def own_memory() -> Iterator[PagedMemory]:
    """The memory of this very process."""
    file = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        yield PagedMemory(ProcessMemory(file, os.getpid(), Deadline(30)), most_given=1 << 30)
    finally:
        os.close(file)


def code_of(source: str, name: str = "/somewhere/file.py") -> CodeType:
    """Compile a function and return its code."""
    (found,) = (part for part in compile(source, name, "exec").co_consts if isinstance(part, CodeType))
    return found


SOURCES = {
    "plain": "def plain(a):\n    b = a\n\n\n    return b\n",
    "long": "def long():\n" + "    x = [1, 2, 3]\n" * 300 + "\n" * 200 + "    return x\n",
    "back": "def back(a):\n    for b in a:\n        if b:\n            f(\n                b,\n            )\n",
    "äöü": "def äöü():\n    return 1\n",
    "日本": "def 日本():\n    raise ValueError\n",
}


@pytest.mark.skipif(HERE not in _VERSIONS, reason="an interpreter whose code objects are not known")
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("file", ["/somewhere/file.py", "/träning/modèle.py", "/日本/訓練.py", "/𝄞.py"])
def test_code_objects_of_this_python(name: str, file: str) -> None:
    """Every instruction has the line that Python itself gives it."""
    code = code_of(SOURCES[name], file)
    with own_memory() as memory:
        objects = CodeObjects(PythonObjects(memory, HERE))
        for start, end, line in code.co_lines():
            for instruction in range(start, end, 2):
                expected = code.co_firstlineno if line is None else line
                assert objects.frame(id(code), instruction) == (code.co_name, file, expected)


@pytest.mark.parametrize("nonsense", [None, "", "2.7", "3.7", "3.99", "pypy"])
def test_pythons_that_are_not_known(nonsense: str | None) -> None:
    """Nothing is read of what lies somewhere else."""
    with own_memory() as memory, pytest.raises(Unreadable):
        PythonObjects(memory, nonsense)


@pytest.mark.parametrize("thing", ["a string", (1, 2), print, CodeType, 8, 0])
def test_what_is_no_code_object(thing: object) -> None:
    """An address may lead to any object, or nowhere."""
    with own_memory() as memory, pytest.raises(Unreadable):
        CodeObjects(PythonObjects(memory, HERE)).frame(thing if isinstance(thing, int) else id(thing), 0)


LINES: list[tuple[str, Callable[[bytes, int], Iterator[tuple[int, int | None]]], bytes, list[int | None]]] = [
    # def f(a):            # line 10, of 3.8: b'\x00\x01\x04\x02\x04\xff'
    ("3.9", lines_until_39, b"\x00\x01\x04\x02\x04\xff", [11, 11, 13, 13, 12, 12]),
    ("3.9, far", lines_until_39, b"\x02\x7f\x00\x7f\x02\x02", [10, 264, 266, 266, 266, 266]),
    ("3.9, nothing", lines_until_39, b"", [10, 10, 10, 10, 10, 10]),
    ("3.9, half", lines_until_39, b"\x04", [10, 10, 10, 10, 10, 10]),
    ("3.10", lines_of_310, b"\x04\x01\x02\x80\x04\xff", [11, 11, None, 10, 10, None]),
    ("3.10, nothing", lines_of_310, b"", [None] * 6),
    ("3.11, short forms", lines_since_311, b"\x80\x00\xd9\x04\x0c", [10, 11, 11, None, None, None]),
    ("3.11, no column", lines_since_311, b"\xe8\x05\xe9\x02", [8, 9, 9, None, None, None]),
    ("3.11, without a line", lines_since_311, b"\xf9\xe8\x04", [None, None, 12, None, None, None]),
    ("3.11, cut off", lines_since_311, b"\xe8", [10, None, None, None, None, None]),
    ("3.11, a number without end", lines_since_311, b"\xe8" + b"\x7f" * 50, [None] * 6),
    ("3.11, no beginning", lines_since_311, b"\x00\x00", [10, None, None, None, None, None]),
]


@pytest.mark.parametrize(("name", "lines", "table", "expected"), LINES, ids=[row[0] for row in LINES])
def test_tables_of_lines(
    name: str,
    lines: Callable[[bytes, int], Iterator[tuple[int, int | None]]],
    table: bytes,
    expected: list[int | None],
) -> None:
    """Of every form, whole and broken."""
    found = [line_of(lines(table, 10), instruction) for instruction in range(0, 12, 2)]
    if name == "3.11, a number without end":
        assert len(found) == 6  # some line or other: it ends
    else:
        assert found == expected


@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize("file", ["/opt/train.py", "/opt/訓練.py"])
def test_call_sites_of_every_python(version: str, file: str) -> None:
    """As it would lie in the memory of a rank that runs it; equal stacks are read once, bad ones are left out."""
    image = RecorderImage(LATEST)
    code = image.code_object(version, file, "train", b"\x02\x02" if version < "3.11" else b"\xe8\x04")
    about = LATEST["traceback"]
    good, bad, empty = (image.allocate(about.size) for _ in range(3))
    image.vector(good + about.offset("frames_"), struct.pack("<QiiQii", code, 0, 0, code, 0, 0))
    image.vector(bad + about.offset("frames_"), struct.pack("<Qii", code + 8, 0, 0))
    with image.memory() as memory:
        sites = CallSites(PagedMemory(memory, most_given=1 << 20), LATEST, version)
        line = 10 if version in ("3.8", "3.9") else 12
        assert sites.of(good) == ({"name": "train", "filename": file, "line": line},) * 2
        assert sites.of(good) is sites.of(good)
        assert sites.of(bad) == sites.of(empty) == sites.of(0) == sites.of(8) == ()
