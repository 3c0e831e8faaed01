"""Runs gdb on a process or a core file, for all threads' native frames.

gdb reads the programs and libraries that the process runs, which are their owner's to write: nothing in them is run
(no auto-load, no libthread_db, no debuginfod), values are never printed, and of its output frames alone are taken. It
writes nothing into the process, not even a breakpoint, so that it may be killed at any moment.
"""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.run_bounded import Output
from agent.tools.stop_guard import require_traceable, trace_process
from shared.errors import NotPermitted, UnreadableDump
from shared.formats.stack_dumps import DEEPEST_STACK, parse_gdb_text
from shared.missing import Reason
from shared.redaction.redact import redact
from shared.wire.stacks import Stacks

HOW_TO_INSTALL = "gdb is not installed: `apt-get install gdb`, `dnf install gdb`"

_NOT_OURS = (
    "gdb opens the memory of a process for writing, too, which only its own user, root or a holder of CAP_DAC_OVERRIDE "
    "may; run `unhang look` as one of them on the node, or allow the agent (the drop-in debuggers.conf), or use "
    "`--with pystack` or `unhang stacks --native`"
)
_NOWHERE = "/nonexistent"
_SETTINGS = (
    "set auto-load off",
    f"set auto-load safe-path {_NOWHERE}",
    f"set libthread-db-search-path {_NOWHERE}",
    "set debuginfod enabled off",
    "set history save off",
    "set confirm off",
    "set pagination off",
    "set width 0",
    "set style enabled off",
    "set print frame-arguments none",
    "set print entry-values no",
    "set print symbol-loading off",
    f"set backtrace limit {DEEPEST_STACK}",
    # While gdb takes some threads to be running still, it puts breakpoints of its own into the dynamic loader and takes
    # them out once all have stopped. Killed in between, it would leave them there, and the process would die of SIGTRAP
    # when it next loads a library. So all threads count as stopped at once. `set may-insert-breakpoints off` is no way:
    # gdb then fails as it attaches to a program with a JIT's hook (`__jit_debug_register_code`), and leaves it stopped.
    "maintenance set target-non-stop off",
)


def gdb_command(
    program: Path, target: Sequence[str], *, sysroot: str | None = None, then: Sequence[str] = ()
) -> list[str]:
    """Return the command that prints all threads' frames of `target`, and then does what `then` says."""
    before = [*_SETTINGS, *([f"set sysroot {sysroot}"] if sysroot is not None else [])]
    after = ["thread apply all backtrace", *then]
    words = [word for setting in before for word in ("-iex", setting)] + [w for each in after for w in ("-ex", each)]
    return [str(program), "-nx", "-nh", "-batch", *words, *target]


def backtrace_with_gdb(procfs: ProcFs, pid: int, program: Path | None, deadline: Deadline) -> Stacks:
    """Return all threads' native frames of a living process, which it stops. Raises Unavailable or Gone."""
    if program is None:
        raise Unavailable(Reason.NOT_FOUND, HOW_TO_INSTALL)
    require_traceable(procfs, pid)
    _require_memory(procfs, pid)
    command = gdb_command(program, ["-p", str(pid)], sysroot=_sysroot(procfs, pid))
    output = trace_process(procfs, pid, command, deadline, end_with=signal.SIGKILL)
    return read_gdb(output, deadline, pid=pid)


def read_gdb(output: Output, deadline: Deadline, *, pid: int | None) -> Stacks:
    """Return the frames in what gdb printed. Raises Unavailable."""
    output.require_end("gdb", deadline)
    try:
        return parse_gdb_text(output.stdout.decode(errors="replace"), pid=pid)
    except UnreadableDump as error:
        said = output.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise Unavailable(Reason.UNREADABLE, f"gdb gave no backtrace: {redact(said[-1])[:200]}") from error


def _require_memory(procfs: ProcFs, pid: int) -> None:
    """Open what gdb will open, and do nothing with it: where gdb may not, it prints frames without names or callers."""
    try:
        with procfs.opened(pid, "mem", os.O_RDWR):
            return
    except NotPermitted as error:
        raise Unavailable(Reason.NOT_PERMITTED, _NOT_OURS) from error


def _sysroot(procfs: ProcFs, pid: int) -> str | None:
    """Return where the files of a process in a container lie for us; None where it sees what we see."""
    return procfs.path(pid, "root") if procfs.is_in_our_namespace(pid, "mnt") is False else None
