"""Runs pystack where py-spy cannot help: when it is not there, or does not know this version of Python.

As a fallback always without stopping the process, so that it is as safe as the least that py-spy does; with native
frames, when somebody asks for them, it stops it for a moment.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.run_bounded import Output, run_bounded
from agent.tools.stop_guard import trace_process
from shared.errors import NotPermitted, UnreadableDump
from shared.formats.stack_dumps import parse_pystack_text
from shared.missing import Reason
from shared.redaction.redact import redact
from shared.wire.stacks import Stacks, StackTable

NO_NATIVE = (
    "without native frames: for these pystack must be allowed to signal the process, as its own user, root or a holder "
    "of CAP_KILL is (for the agent: the drop-in debuggers.conf)"
)
HOW_TO_INSTALL = "pystack is not installed beside the agent: `pip install pystack`"


def dump_stacks_with_pystack(pid: int, program: Path, deadline: Deadline) -> Stacks:
    """Return the stacks of a process. Raises Unavailable."""
    command = [str(program), "remote", "--no-block", "--no-color", str(pid)]
    return read_pystack(run_bounded(command, deadline), deadline, pid=pid, paused=False)


def with_unknown_threads(stacks: Stacks, procfs: ProcFs, pid: int, program: Path | None, deadline: Deadline) -> Stacks:
    """Return native stacks with those of the threads that Python does not know. Raises as `backtrace_with_pystack`."""
    every = backtrace_with_pystack(procfs, pid, program, deadline)
    known, table = {thread.tid for thread in stacks.threads}, StackTable(stacks.frames)
    more = [thread for thread in every.threads if thread.tid not in known]
    threads = list(stacks.threads)
    for thread in more:
        frames = tuple(map(table.add, every.stack(thread)))
        with suppress(Gone, NotPermitted):
            name = procfs.stat(pid, thread.tid).name
            threads.append(thread.model_copy(update={"frames": frames, "name": name}))
    return stacks.model_copy(update={"threads": tuple(threads), "frames": table.frames})


def backtrace_with_pystack(procfs: ProcFs, pid: int, program: Path | None, deadline: Deadline) -> Stacks:
    """Return Python and native frames of all threads; it stops the process. Raises Unavailable or Gone.

    Python frames alone where pystack may not have the others, which it asks for by a signal that does nothing.
    """
    if program is None:
        raise Unavailable(Reason.NOT_FOUND, HOW_TO_INSTALL)
    native = ["--native-all"] if _may_signal(pid) else []
    command = [str(program), "remote", *native, "--no-color", str(pid)]
    output = trace_process(procfs, pid, command, deadline, end_with=signal.SIGKILL)
    return read_pystack(output, deadline, pid=pid, paused=True)


def _may_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass  # told by who looks for it next
    return True


def read_pystack(output: Output, deadline: Deadline, *, pid: int | None, paused: bool) -> Stacks:
    """Return the stacks in what pystack printed. Raises Unavailable."""
    output.require_end("pystack", deadline)
    try:
        stacks = parse_pystack_text(output.stdout.decode(errors="replace"), pid=pid, paused=paused)
    except UnreadableDump as error:
        said = output.stderr.decode(errors="replace").strip().splitlines() or [f"status {output.status}"]
        raise Unavailable(Reason.UNREADABLE, f"pystack failed: {redact(said[0])[:200]}") from error
    return stacks.model_copy(update={"native": any(frame.native for frame in stacks.frames)})
