"""Symbols and build ids of real libraries, in the memory of a process and in their files, and of made-up ones."""

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.memory.elf_image import build_id_in_file, build_id_in_memory, read_image
from agent.proc.memory.elf_symbols import find_vtable
from agent.proc.memory.mappings import LoadedFile, loaded_files, read_mappings
from agent.proc.memory.process_memory import open_memory
from agent.proc.memory.symbol_tables import SymbolTables, find_symbols
from agent.proc.procfs import ProcFs
from shared.missing import Reason
from tests.build.processes.processes import running

SOURCE = """
struct Base { virtual ~Base() {} virtual int one() { return 1; } };
struct Derived : Base { int one() override { return 2; } };
Base *made = new Derived;
static long hidden = 42;
extern "C" long *where() { return &hidden; }
extern "C" void *vtable() { return **reinterpret_cast<void ***>(&made); }
"""
LOADS = """
import ctypes, sys, time
library = ctypes.CDLL(sys.argv[1])
for function in (library.where, library.vtable): function.restype = ctypes.c_void_p
print(library.where(), library.vtable(), flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small library in C++ with a symbol of its own, a class, and a build id."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("library")
    (folder / "small.cpp").write_text(SOURCE)
    command = [compiler, "-shared", "-fPIC", "-O0", "-Wl,--build-id", "-o", "libsmall.so", "small.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "libsmall.so"


def loaded(pid: int, name: str = "libsmall.so") -> LoadedFile:
    """Return the one file of that name which a process has loaded."""
    (found,) = loaded_files(read_mappings(ProcFs(), pid), re.compile(re.escape(name)))
    return found


def find_hidden(pid: int, file: LoadedFile, tables: SymbolTables) -> int:
    """Return where a process has the variable that its library keeps to itself."""
    with open_memory(ProcFs(), ProcFs().stat(pid), Deadline(10)) as memory:
        image = read_image(memory.read_some, file.base)
        build_id = build_id_in_memory(memory.read_some, image)
    found = tables.find(ProcFs(), pid, file, build_id, [b"_ZL6hidden", b"_ZL4none"], Deadline(10))
    assert set(found) == {b"_ZL6hidden"}
    return found[b"_ZL6hidden"] + image.bias


@pytest.mark.ptrace
def test_symbols_of_a_loaded_library(library: Path) -> None:
    """One from its file, one from its tables in memory: both lie where the process itself says."""
    with running(command=("python3", "-c", LOADS, str(library)), wait=False) as process:
        assert process.stdout is not None
        where, vtable = map(int, process.stdout.readline().split())
        file = loaded(process.pid)
        assert file.path == str(library)
        assert find_hidden(process.pid, file, SymbolTables()) == where
        with open_memory(ProcFs(), ProcFs().stat(process.pid), Deadline(10)) as memory:
            assert find_vtable(memory.read_some, file.base, b"_ZTV7Derived") == vtable
            assert find_vtable(memory.read_some, file.base, b"_ZTV7Missing") is None
            assert memory.word(where) == 42


@pytest.mark.ptrace
def test_library_that_was_replaced_since(library: Path, tmp_path: Path) -> None:
    """The file by that name is another one now: the loaded one is read where the kernel lets us, and no other."""
    copy = tmp_path / "libsmall.so"
    shutil.copy(library, copy)
    with running(command=("python3", "-c", LOADS, str(copy)), wait=False) as process:
        assert process.stdout is not None
        where = int(process.stdout.readline().split()[0])
        copy.unlink()
        copy.write_bytes(Path("/bin/sh").read_bytes())
        file = loaded(process.pid)
        assert file.path == str(copy)
        if os.access(f"/proc/{process.pid}/map_files/{file.base:x}-{file.regions[0].end:x}", os.R_OK):
            assert find_hidden(process.pid, file, SymbolTables()) == where
        else:  # without CAP_CHECKPOINT_RESTORE
            with pytest.raises(Unavailable):
                find_hidden(process.pid, file, SymbolTables())


@pytest.mark.ptrace
def test_symbols_are_remembered(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process with the same library costs no second search."""
    tables = SymbolTables()
    for attempt in range(2):
        with running(command=("python3", "-c", LOADS, str(library)), wait=False) as process:
            assert process.stdout is not None
            where = int(process.stdout.readline().split()[0])
            assert find_hidden(process.pid, loaded(process.pid), tables) == where
        if attempt == 0:
            monkeypatch.setattr("agent.proc.memory.symbol_tables.find_symbols", None)


def test_build_id_in_a_file_and_a_stripped_library(library: Path, tmp_path: Path) -> None:
    """As the compiler's own tools print it. A stripped one has no table: nothing is found, and nothing is wrong."""
    data = library.read_bytes()
    found = build_id_in_file(lambda at, size: data[at : at + size])
    told = subprocess.run(["readelf", "-n", str(library)], capture_output=True, text=True, check=True).stdout
    assert found is not None and f"Build ID: {found.hex()}" in told
    subprocess.run(["strip", "-o", str(tmp_path / "stripped.so"), str(library)], check=True)
    assert find_in((tmp_path / "stripped.so").read_bytes(), b"_ZL6hidden") == {}


def elf_with_tables(symbols: bytes, strings: bytes, *, claimed: int | None = None) -> bytes:
    """Make a file that holds a symbol table and its names, and nothing else."""
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 40, 64)
    struct.pack_into("<HH", header, 58, 64, 2)
    at = 64 + 128
    of_symbols = struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, at, claimed or len(symbols), 1, 0, 0, 24)
    of_strings = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at + len(symbols), claimed or len(strings), 0, 0, 0, 0)
    return bytes(header) + of_symbols + of_strings + symbols + strings


def find_in(data: bytes, name: bytes = b"wanted") -> dict[bytes, int]:
    """Look a symbol up in a made-up file."""
    return find_symbols(lambda at, size: data[at : at + size], len(data), [name], Deadline(5))


def symbol(name_at: int, value: int) -> bytes:
    """Make one entry of a symbol table."""
    return struct.pack("<IBBHQQ", name_at, 1, 0, 7, value, 8)


def test_name_that_ends_another() -> None:
    """Linkers let names share their ends: `wanted` may be the end of `unwanted`, which is another symbol."""
    strings = b"\0unwanted\0" + b"x" * 2_000_000 + b"\0"
    assert find_in(elf_with_tables(symbol(1, 5) + symbol(3, 6), strings)) == {b"wanted": 6}
    assert find_in(elf_with_tables(symbol(1, 5), strings)) == {}


@pytest.mark.parametrize("before", [1, 24 * 43_690, 24 * 43_691, 24 * 50_000])
def test_entries_and_names_at_the_seams_of_pieces(before: int) -> None:
    """Nothing is lost where one piece that is read ends and the next begins."""
    symbols = symbol(0, 1) * (before // 24) + symbol(1_048_570, 9)
    assert find_in(elf_with_tables(symbols, b"\0".ljust(1_048_570, b"y") + b"wanted\0")) == {b"wanted": 9}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF",
        elf_with_tables(b"", b"")[:100],
        elf_with_tables(symbol(1, 5), b"\0wanted\0", claimed=1 << 60),
        elf_with_tables(symbol(1, 0), b"\0wanted\0"),
        elf_with_tables(symbol(1, 5)[:23], b"\0wanted\0"),
    ],
    ids=["empty", "short", "cut off", "sizes beyond the file", "no value", "half an entry"],
)
def test_tables_that_make_no_sense(data: bytes) -> None:
    """They hold no such symbol."""
    assert find_in(data) == {}


@pytest.mark.parametrize(
    "data",
    [
        elf_with_tables(symbol(1, 5), b"\0" + b"wanted\0" * 1000),
        elf_with_tables(bytes(4_000_000), b"wanted\0"),
    ],
    ids=["name in a thousand places", "value in a million places"],
)
def test_tables_that_cost_time(data: bytes) -> None:
    """Made so that a reader has much to do: it gives up."""
    with pytest.raises(Unavailable) as caught:
        find_in(data)
    assert caught.value.reason is Reason.REFUSED
