"""Core files: real ones of a hanging and of a dying process, cut, packed and made-up ones."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.deadline import Deadline
from agent.tools.core_file import CoreReaders, find_programs, read_core
from agent.tools.core_notes import read_notes
from cli.core_story import tell_story
from shared.errors import NotFound, UnreadableDump
from shared.missing import Missing, Reason
from shared.wire.stacks import Stacks
from tests.build.processes.processes import READY, running, until
from tests.needed import skip_without

NONE = CoreReaders(gdb=None, pystack=None)

HANGS = f"""
import os, threading, time
def refresh_cache():
    time.sleep(600)
def wait_for_shard():
    os.read(os.pipe()[0], 1)
threading.Thread(target=refresh_cache, daemon=True).start()
{READY}
wait_for_shard()
"""


class Core(NamedTuple):
    """A core file, and the process that it is of."""

    path: Path
    pid: int


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Core:
    """What gcore writes of a process that hangs."""
    path = tmp_path_factory.mktemp("core") / "core.hanging"
    script = path.with_name("train.py")
    script.write_text(HANGS, encoding="ascii")
    with running(command=(sys.executable, str(script))) as process:
        until(lambda: Path(f"/proc/{process.pid}/wchan").read_text(), lambda wchan: "pipe" in wchan)
        gdb("-p", str(process.pid), "-ex", f"generate-core-file {path}")
        return Core(path, process.pid)


@pytest.fixture(scope="module")
def aborted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is left of a process that ended itself; by gdb, for the kernel's own cores may go anywhere."""
    path = tmp_path_factory.mktemp("core") / "core.aborted"
    program = "import os\ndef give_up():\n    os.abort()\ngive_up()\n"
    gdb("-ex", "run", "-ex", f"generate-core-file {path}", "--args", sys.executable, "-c", program)
    return path


def gdb(*words: str) -> None:
    """Run gdb to its end."""
    skip_without("gdb")
    quiet = ("-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off")
    subprocess.run(("gdb", *quiet, *words), capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.ptrace
def test_core_of_a_hang(hanging: Core) -> None:
    """All threads, Python and native; no signal; the story names the user's own line."""
    report = tell_story(read_core(hanging.path, find_programs(), Deadline(60.0)))
    assert (report.signal, report.thread, report.pid) == (None, hanging.pid, hanging.pid)
    assert isinstance(report.python, Stacks), report.python
    assert isinstance(report.native, Stacks), report.native
    assert {"refresh_cache", "wait_for_shard"} <= {frame.function for frame in report.python.frames}
    assert len(report.native.threads) == 2
    assert report.story.startswith("taken from a running process; its main thread was in user code at wait_for_shard")
    assert report.story.endswith("read")
    assert report.executable_found
    assert report.executable is not None
    assert "python" in report.executable
    assert (report.libraries > 3, report.libraries_missing) == (True, ())


@pytest.mark.ptrace
def test_core_of_an_abort(aborted: Path) -> None:
    """The signal, the thread that got it, what it means, and where Python was."""
    report = tell_story(read_core(aborted, find_programs(), Deadline(60.0)))
    assert (report.signal_name, report.thread) == ("SIGABRT", report.pid)
    assert report.story.startswith("SIGABRT: it aborted (abort()), in ")
    assert "give_up" in report.story
    assert report.cause == "exception"


@pytest.mark.ptrace
def test_without_tools_the_notes_still_tell(hanging: Core) -> None:
    """Who it was and of what; what is missing says how to install it."""
    report = tell_story(read_core(hanging.path, NONE, Deadline(10.0)))
    assert report.command.startswith(sys.executable[:20])
    for part, advice in ((report.native, "apt-get install gdb"), (report.python, "pip install pystack")):
        assert isinstance(part, Missing)
        assert (part.reason, advice in part.detail) == (Reason.NOT_FOUND, True)
    assert report.story.endswith("its position is unknown")


@pytest.mark.ptrace
def test_cut_core(hanging: Core, tmp_path: Path) -> None:
    """A core of gcore's that a full disk has cut: its notes were at the end."""
    cut = tmp_path / "core.cut"
    whole = hanging.path.stat().st_size
    shutil.copyfile(hanging.path, cut)
    os.truncate(cut, whole // 2)
    with pytest.raises(UnreadableDump, match=f"cut off, {whole // 2} of .* bytes"):
        read_core(cut, find_programs(), Deadline(30.0))


@pytest.mark.ptrace
def test_tools_end_at_the_deadline(hanging: Core, tmp_path: Path) -> None:
    """One that never comes back is ended with all it has started."""
    slow = tmp_path / "gdb"
    slow.write_text("#!/bin/sh\nsleep 600\n")
    slow.chmod(0o755)
    native = read_core(hanging.path, CoreReaders(slow, None), Deadline(1.0)).native
    assert isinstance(native, Missing) and native.reason is Reason.TIMED_OUT


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not an ELF core"),
        (b"\x7fELF\x01\x01" + bytes(64), "64-bit"),
        (b"\x28\xb5\x2f\xfd" + bytes(64), "compressed"),
        (b"\x1f\x8b" + bytes(64), "compressed"),
        (b"#!/bin/sh\n" + bytes(64), "not an ELF core"),
    ],
)
def test_files_that_are_no_core(tmp_path: Path, data: bytes, said: str) -> None:
    """Told apart, with what to do."""
    file = tmp_path / "core"
    file.write_bytes(data)
    with pytest.raises(UnreadableDump, match=said) as caught:
        read_core(file, NONE, Deadline(5.0))
    assert caught.value.advice


def test_paths_that_are_no_cores(tmp_path: Path) -> None:
    """A program has the same format, and is another kind of file; a FIFO would block, a directory is none."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UnreadableDump, match="not a readable core"):
        read_core(Path(sys.executable).resolve(), NONE, Deadline(5.0))
    for name in ("fifo", "."):
        with pytest.raises(UnreadableDump):
            read_core(tmp_path / name, NONE, Deadline(5.0))
    with pytest.raises(NotFound):
        read_core(tmp_path / "nothing", NONE, Deadline(5.0))


def made_up(*notes: tuple[int, bytes], headers: int = 1, length: int | None = None) -> bytes:
    """Return a core file of nothing but notes."""
    body = b"".join(
        struct.pack("<III", 5, len(desc), kind) + b"CORE\0\0\0\0" + desc + bytes(-len(desc) % 4) for kind, desc in notes
    )
    size = len(body) if length is None else length
    head = (
        b"\x7fELF\x02\x01" + bytes(10) + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, headers, 0, 0, 0)
    )
    return head + struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, size, 0, 0) + body


STATUS = struct.pack("<iiih2xQQi", 11, 0, 0, 11, 0, 0, 4242) + bytes(300)


OFFSET = struct.pack("<Q", 120)
HOSTILE = {
    "notes longer than the file": made_up((1, STATUS), length=1 << 40),
    "offsets beyond everything": made_up((1, STATUS)).replace(OFFSET, struct.pack("<Q", 2**63), 1),
    "a million headers": made_up((1, STATUS), headers=0xFFFF),
    "files without end": made_up((1, STATUS), (0x46494C45, struct.pack("<QQ", 2**63, 4096))),
    "a table of files that is cut": made_up((1, STATUS), (0x46494C45, struct.pack("<QQ", 3, 4096) + bytes(30))),
    "half an auxv": made_up((6, bytes(25)), (1, STATUS)),
    "no thread": made_up((3, bytes(136))),
}
"""Made-up cores that lie about themselves."""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_notes(tmp_path: Path, name: str) -> None:
    """They cost no time or memory; what can be read is."""
    file = tmp_path / "core"
    file.write_bytes(HOSTILE[name])
    with file.open("rb") as core:
        try:
            notes = read_notes(core.fileno())
        except UnreadableDump:
            assert name in ("offsets beyond everything", "a million headers", "no thread")
        else:
            assert (notes.missing_bytes > 0) is (name == "notes longer than the file")
            assert (notes.threads, notes.signal, len(notes.files)) == ((4242,), 11, 0 if name[:5] != "a tab" else 1)
