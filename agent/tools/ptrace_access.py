"""May we read the stacks of a process? Told before it is tried, with what stands in the way and how to remove it.

The kernel is asked itself: opening /proc/PID/mem needs the very permission that ptrace needs, and stops nobody
(ptrace(2), "Ptrace access mode checking"). The rest is for words only.
"""

import os
from pathlib import Path

from agent.errors import Gone
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted

YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
_CAP_SYS_PTRACE = 19
_SCOPES = {
    "1": "only parents may trace a process",
    "2": "only processes with CAP_SYS_PTRACE may trace others",
    "3": "no process may trace another until the machine is rebooted",
}


def trace_obstacle(procfs: ProcFs, pid: int) -> str | None:
    """Return why the stacks of process `pid` cannot be read; None where they can, or where asking might block."""
    try:
        if procfs.stat(pid).state in "DZX":  # blocked in the kernel, it may block who asks; ended, it has no stacks
            return None
        with procfs.opened(pid, "mem"):
            return None
    except Gone:
        return None
    except NotPermitted:
        return permission_advice(procfs, pid)


def permission_advice(procfs: ProcFs, pid: int, yama: Path = YAMA) -> str:
    """Say which of the usual obstacles stands between us and process `pid`, and how to remove it."""
    status = procfs.fields(pid, "status")
    tracer = status.get("TracerPid", "0")
    if tracer != "0":
        return f"process {pid} is already traced by process {tracer} (a debugger or strace)"
    mine = procfs.fields(os.getpid(), "status")
    own, other = _effective_uid(mine), _effective_uid(status)
    scope = _yama_scope(yama)
    if own == other and scope in _SCOPES:
        remedy = "" if scope == "3" else "; run `sysctl kernel.yama.ptrace_scope=0` or give the agent CAP_SYS_PTRACE"
        return f"kernel.yama.ptrace_scope is {scope}: {_SCOPES[scope]}{remedy}"
    if own == other and own != "0" and _is_undumpable(procfs, pid, other):
        return f"process {pid} does not let others trace it (PR_SET_DUMPABLE); give the agent CAP_SYS_PTRACE"
    if own == other or own == "0":
        has = "has CAP_SYS_PTRACE, but a security module or a user namespace is in the way"
        told = f"the agent {has if _may_trace(mine) else 'lacks CAP_SYS_PTRACE'}"
        return (
            f"{told}; in a container add `--cap-add SYS_PTRACE` "
            "(Kubernetes: securityContext.capabilities.add: [SYS_PTRACE])"
        )
    return f"process {pid} belongs to uid {other}, the agent runs as uid {own}: give it CAP_SYS_PTRACE"


def _effective_uid(status: dict[str, str]) -> str:
    return (status.get("Uid", "") + " ? ?").split()[1]


def _may_trace(status: dict[str, str]) -> bool:
    try:
        return bool(int(status.get("CapEff", "0"), 16) >> _CAP_SYS_PTRACE & 1)
    except ValueError:
        return False


def _is_undumpable(procfs: ProcFs, pid: int, uid: str) -> bool:
    """The files of a process that may not be dumped belong to root, whoever runs it (proc(5))."""
    try:
        return str(os.stat(procfs.path(pid, "status")).st_uid) != uid
    except OSError:
        return False


def _yama_scope(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
