"""Reads a core file with all that helps: its notes, gdb for native frames, pystack for Python's."""

import os
import signal
import stat
from functools import partial
from pathlib import Path
from typing import NamedTuple

from agent.deadline import Deadline, ThreadPool
from agent.errors import Unavailable, missing_for
from agent.proc.job_files import NotPlain, hold, open_held_file
from agent.tools import gdb, pystack
from agent.tools.core_notes import CoreNotes, read_notes
from agent.tools.run_bounded import find_program, run_bounded
from shared.errors import NotFound, NotPermitted, UnreadableDump
from shared.missing import Missing, Reason
from shared.redaction.redact import redact
from shared.wire.debug_output import CoreReport
from shared.wire.stacks import Stacks

_MOST_MISSING = 64
_MOST_CHECKED = 4096
_OF_THE_LIVING = frozenset({0, signal.SIGSTOP, signal.SIGTRAP})
"""What cores of running processes carry: gcore stops them, and the kernel then says so."""


class CoreReaders(NamedTuple):
    """The tools that read a core; None: not there."""

    gdb: Path | None
    pystack: Path | None


def find_programs() -> CoreReaders:
    """Return the tools of this machine."""
    return CoreReaders(find_program("gdb"), find_program("pystack"))


def read_core(path: Path, programs: CoreReaders, deadline: Deadline, *, executable: Path | None = None) -> CoreReport:
    """Return what the core file tells. A tool that fails is Missing.

    Raises NotFound, NotPermitted or UnreadableDump.
    """
    notes = _notes(path)
    program = str(executable.absolute()) if executable is not None else notes.executable
    found = program is not None and _is_plain(program)
    libraries = sorted({file.path for file in notes.files if ".so" in file.path.rpartition("/")[2]})
    lost = [library for library in libraries[:_MOST_CHECKED] if not _is_plain(library)]
    living = notes.signal in _OF_THE_LIVING
    stacks = _stacks(path, program if found else None, programs, deadline, pid=notes.threads[0])
    return CoreReport(
        file=str(path),
        size_bytes=notes.size_bytes,
        missing_bytes=notes.missing_bytes,
        pid=notes.pid,
        command=redact(notes.command),
        executable=program,
        executable_found=found,
        libraries=len(libraries),
        libraries_missing=tuple(lost[:_MOST_MISSING]),
        signal=None if living else notes.signal,
        signal_name="" if living else _name(notes.signal),
        thread=notes.pid if living else notes.threads[0],
        python=_of(notes, stacks["python"]),
        native=_of(notes, stacks["native"]),
    )


def _notes(path: Path) -> CoreNotes:
    try:
        held = hold(str(path))
        try:
            core = open_held_file(held)
        finally:
            os.close(held)
    except FileNotFoundError as error:
        raise NotFound(f"no such file: {path}") from error
    except PermissionError as error:
        raise NotPermitted(f"not allowed to read {path}", advice="run as its owner or as root") from error
    except (NotPlain, OSError) as error:
        raise UnreadableDump(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return read_notes(core)
    finally:
        os.close(core)


def _stacks(
    path: Path, program: str | None, programs: CoreReaders, deadline: Deadline, *, pid: int
) -> dict[str, Stacks | Missing]:
    """Ask both tools side by side."""
    looks = {
        "native": partial(_with_gdb, path, program, programs.gdb, deadline, pid),
        "python": partial(_with_pystack, path, program, programs.pystack, deadline, pid),
    }
    sources = {"native": "gdb", "python": "pystack"}
    outcomes = ThreadPool().run(looks, deadline).items()
    return {name: missing_for(sources[name], one) if isinstance(one, Exception) else one for name, one in outcomes}


def _with_gdb(path: Path, program: str | None, tool: Path | None, deadline: Deadline, pid: int) -> Stacks:
    if tool is None:
        raise Unavailable(Reason.NOT_FOUND, gdb.HOW_TO_INSTALL)
    target = [*([program] if program is not None else []), f"--core={path.absolute()}"]
    limit = deadline.sooner(0.5)
    return gdb.read_gdb(run_bounded(gdb.gdb_command(tool, target), limit), limit, pid=pid)


def _with_pystack(path: Path, program: str | None, tool: Path | None, deadline: Deadline, pid: int) -> Stacks:
    if tool is None:
        raise Unavailable(Reason.NOT_FOUND, pystack.HOW_TO_INSTALL)
    command = [str(tool), "core", "--no-color", str(path.absolute()), *([program] if program is not None else [])]
    limit = deadline.sooner(0.5)
    return pystack.read_pystack(run_bounded(command, limit), limit, pid=pid, paused=True)


def _of(notes: CoreNotes, stacks: Stacks | Missing) -> Stacks | Missing:
    """Let the process's own id tell which thread is the main one."""
    return stacks.model_copy(update={"pid": notes.pid}) if isinstance(stacks, Stacks) else stacks


def _is_plain(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
