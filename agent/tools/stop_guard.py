"""Runs a program that traces a process, and makes sure that it leaves nobody stopped behind."""

import shutil
import signal
from collections.abc import Sequence

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.ptrace_access import trace_obstacle
from agent.tools.pyspy import let_go, may_be_paused
from agent.tools.run_bounded import Output, run_bounded
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
    procfs: ProcFs, pid: int, command: Sequence[str], deadline: Deadline, *, ask_to_end: signal.Signals
) -> Output:
    """Run `command`, which traces `pid`, to its end or to the deadline. Raises Unavailable or Gone before it begins."""
    require_traceable(procfs, pid)
    begun = procfs.stat(pid).start_ticks
    output = run_bounded([*_last_resort(deadline, ask_to_end), *command], deadline, ask_to_end=ask_to_end)
    if output.status is None or output.status < 0:
        let_go(procfs, pid, begun)
    return output


def _last_resort(deadline: Deadline, ask_to_end: signal.Signals) -> list[str]:
    """Return what ends a tracer whose parent was killed: nobody else would take it off the rank."""
    timeout = shutil.which("timeout")
    seconds = f"{deadline.left() + _LATER_SECONDS:.0f}"
    return [] if timeout is None else [timeout, "-s", ask_to_end.name.removeprefix("SIG"), "-k", "2", seconds]
