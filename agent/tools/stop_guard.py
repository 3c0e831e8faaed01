"""Runs a program that traces a process, and makes sure that it leaves nobody stopped behind, or harmed.

A tracer that is killed lets go: the kernel detaches what it was attached to (ptrace(2)). Anything gentler depends on
the tracer. gdb, for one, may pass a SIGTERM that it gets while it attaches on to the process, as SIGINT
(target_terminal::inferior and child_pass_ctrlc in its source). So a tracer is killed, unless it is known to handle a
gentler signal well, and those that others send do not reach it.
"""

import shutil
import signal
from collections.abc import Sequence

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.ptrace_access import trace_obstacle
from agent.tools.pyspy import let_go, may_be_paused, process_of
from agent.tools.run_bounded import ENDING_SIGNALS, Output, run_bounded
from shared.missing import Reason

_LATER_SECONDS = 5.0


def require_traceable(procfs: ProcFs, pid: int) -> None:
    """Raise Unavailable where tracing the process would block, change its state, or is not permitted. Raises Gone."""
    obstacle = trace_obstacle(procfs, pid)
    if obstacle is not None:
        raise Unavailable(Reason.NOT_PERMITTED, obstacle)
    tracer = procfs.fields(pid, "status").get("TracerPid", "0")
    if tracer != "0":
        raise Unavailable(Reason.REFUSED, f"process {pid} is already traced by process {tracer} (a debugger or strace)")
    if not may_be_paused(procfs, pid):
        raise Unavailable(
            Reason.REFUSED,
            f"process {pid} is stopped or blocked in the kernel: attaching could wait forever, or wake it",
        )


def trace_process(
    procfs: ProcFs, pid: int, command: Sequence[str], deadline: Deadline, *, end_with: signal.Signals
) -> Output:
    """Run `command`, which traces `pid`, to its end or to the deadline. Raises Unavailable or Gone before it begins.

    `end_with` is the signal that ends it, and the only one it receives.
    """
    require_traceable(procfs, pid)
    process = process_of(pid)
    guarded = [*_last_resort(deadline, end_with), *command]
    try:
        return run_bounded(guarded, deadline, end_with=end_with, block=ENDING_SIGNALS - {end_with})
    finally:  # Ctrl-C kills the tracer; and gdb that fails as it attaches leaves the process stopped, with any status
        let_go(process)


def _last_resort(deadline: Deadline, end_with: signal.Signals) -> list[str]:
    """Return what ends a tracer whose parent was killed: nobody else would take it off the rank."""
    timeout = shutil.which("timeout")
    seconds = f"{deadline.left() + _LATER_SECONDS:.0f}"
    return [] if timeout is None else [timeout, "-s", end_with.name.removeprefix("SIG"), "-k", "2", seconds]
