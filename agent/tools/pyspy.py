"""Runs py-spy on one process.

Without native frames it does not stop the process: `unpaused_stacks` says what such a reading is worth. For `--native`
it attaches for about a second. Not to a process that is stopped, traced or blocked in the kernel: attaching to such a
one would wait for ever. Nor to one with a thread in a call that a stop would end. These are read without native frames.
"""

import re
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.memory_budget import Memory
from agent.tools.ptrace_access import permission_advice, trace_obstacle
from agent.tools.run_bounded import ENDING_SIGNALS, LARGEST_OUTPUT, Output, run_bounded
from agent.tools.syscall_names import read_syscall
from agent.tools.unpaused_stacks import read_unpaused
from shared.errors import NotPermitted, UnreadableDump
from shared.formats.stack_dumps import parse_pyspy_json
from shared.missing import Reason
from shared.redaction.redact import redact
from shared.wire.stacks import Stacks

_NEVER_ATTACH = "DTt"
_ENDED_BY_A_STOP = re.compile(
    r"(p?write(v|64|v2)?|send(to|msg|mmsg|file)|splice|copy_file_range|connect|io_p?getevents|io_uring_enter"
    r"|sem(timed)?op|msgrcv|msgsnd|rt_sigtimedwait)"
)
"""Calls that return a part, or an error, once the thread has been stopped (signal(7)); the kernel repeats most others.

`epoll_wait` is one, too, but returns to event loops, which expect it: every rank of Gloo has a thread in one.
"""
_NO_FILES = "--full-filenames"
"""To shorten names py-spy looks for packages where the code lies: a mount there may not answer."""
_FROM_OUTSIDE = (
    "py-spy cannot read the native frames of a process in a container from its node: Python numbers threads as the "
    "container does; run `unhang stacks --native` in the container, or `unhang look` on the node"
)


def dump_stacks(
    procfs: ProcFs,
    pid: int,
    program: Path | None,
    *,
    native: bool,
    deadline: Deadline,
    memory: Memory | None = None,
) -> Stacks:
    """Return the stacks of a process. Raises Unavailable or Gone."""
    if program is None:
        raise Unavailable(Reason.NOT_FOUND, "py-spy is not installed beside the agent: `pip install py-spy`")
    obstacle = trace_obstacle(procfs, pid)
    if obstacle is not None:
        raise Unavailable(Reason.NOT_PERMITTED, obstacle)
    command = [str(program), "dump", "--json", _NO_FILES, "--pid", str(pid)]
    parse = partial(_parsed, procfs, pid, deadline=deadline, memory=memory or Memory())
    if native and may_be_paused(procfs, pid) and not _ends_a_call(procfs, pid):
        return parse(_run_pausing(procfs, pid, [*command, "--native"], deadline), paused=True)
    read = partial(run_bounded, [*command, "--nonblocking"], deadline, block=ENDING_SIGNALS)
    return read_unpaused(procfs, pid, lambda: parse(read(), paused=False))


def _run_pausing(procfs: ProcFs, pid: int, command: list[str], deadline: Deadline) -> Output:
    process = process_of(pid)
    spare = partial(_would_stop, procfs, process)
    output = run_bounded(command, deadline, block=ENDING_SIGNALS, spare=spare)
    if output.status is None or output.status < 0:  # killed, at the deadline or by who ends this process
        let_go(process)
    return output


def _parsed(procfs: ProcFs, pid: int, output: Output, *, paused: bool, deadline: Deadline, memory: Memory) -> Stacks:
    output.require_end("py-spy", deadline)
    if output.status != 0:
        raise _explain(output.stderr.decode(errors="replace"), procfs, pid)
    if len(output.stdout) > LARGEST_OUTPUT:
        raise Unavailable(Reason.UNREADABLE, f"py-spy wrote a dump larger than the {LARGEST_OUTPUT} bytes we read")
    try:
        with memory.parsing(deadline):
            return parse_pyspy_json(output.stdout, native=paused, paused=paused)
    except UnreadableDump as error:
        raise Unavailable(Reason.UNREADABLE, str(error)) from error


def may_be_paused(procfs: ProcFs, pid: int) -> bool:
    """May we stop this process? Not if any of its threads is stopped, traced or blocked in the kernel."""
    if procfs.stat(pid).state in _NEVER_ATTACH:
        return False
    for tid in procfs.tids(pid):
        try:
            if procfs.stat(pid, tid).state in _NEVER_ATTACH:
                return False
        except Gone:
            continue
    return True


def _ends_a_call(procfs: ProcFs, pid: int) -> bool:
    """Would a stop end a call in which a thread of the process is blocked?"""
    for tid in procfs.tids(pid):
        with suppress(Gone, NotPermitted):
            call = read_syscall(procfs, pid, tid)
            if call is not None and _ENDED_BY_A_STOP.fullmatch(call.name):
                return True
    return False


def process_of(pid: int) -> psutil.Process:
    """Return the process that has this id now, and no other that may have it later. Raises Gone."""
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess as error:
        raise Gone(f"process {pid} has exited") from error


def let_go(process: psutil.Process) -> None:
    """Wake who a killed tracer may have left stopped.

    Attaching sends SIGSTOP, which may still be on its way when the tracer dies. SIGCONT takes it back wherever it is,
    and is nothing to a process that runs. An agent that is not root may not send it: hence `_would_stop`.
    """
    with suppress(psutil.Error, OSError):
        process.resume()


def _would_stop(procfs: ProcFs, process: psutil.Process) -> bool:
    """Would the process stop for ever if its tracer were killed now?

    It has got the SIGSTOP of an attach and cannot take it, because it is blocked in the kernel. Once it can, the tracer
    sees it stop and lets it go as always.
    """
    try:
        if not process.is_running():
            return False
        return any(_is_stopping(procfs, process.pid, tid) for tid in procfs.tids(process.pid))
    except (Gone, NotPermitted):
        return False


def _is_stopping(procfs: ProcFs, pid: int, tid: int) -> bool:
    """Is a SIGSTOP on its way to this thread?"""
    # SigPnd:	0000000000040000        the thread's own; ShdPnd is the process's
    try:
        status = procfs.fields(pid, f"task/{tid}/status")
        pending = int(status.get("SigPnd", "0"), 16) | int(status.get("ShdPnd", "0"), 16)
    except (Gone, ValueError):
        return False
    return bool(pending >> (signal.SIGSTOP - 1) & 1)


def _explain(complaint: str, procfs: ProcFs, pid: int) -> Unavailable | Gone:
    """Turn py-spy's complaint into a reason and advice."""
    # Error: Failed to suspend process / Reason: EPERM: Operation not permitted
    # Permission Denied: Try running again with elevated permissions by going 'sudo env "PATH=$PATH" !!'
    text = complaint.strip()
    last = text.splitlines()[-1] if text else "it printed nothing"
    lower = text.lower()
    if "permission denied" in lower or "not permitted" in lower or "eperm" in lower:
        return Unavailable(Reason.NOT_PERMITTED, permission_advice(procfs, pid))
    if "no such process" in lower or "os error 3)" in lower:
        return Gone(f"process {pid} exited during the look")
    if "ebadreg" in lower and len(procfs.fields(pid, "status").get("NSpid", "").split()) > 1:
        return Unavailable(Reason.UNREADABLE, _FROM_OUTSIDE)
    if "find python version" in lower or "python interpreter" in lower or "no python" in lower:
        return Unavailable(Reason.NOT_FOUND, f"no Python interpreter found in process {pid}: {redact(last)[:200]}")
    return Unavailable(Reason.UNREADABLE, f"py-spy failed: {redact(last)[:300]}")
