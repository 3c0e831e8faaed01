"""The source `process`: what /proc tells of a process without stopping it."""

import os
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import islice

from agent.deadline import Deadline, ThreadPool
from agent.errors import Gone
from agent.find.choose_ranks import Rank
from agent.proc.file_locks import lock_holders
from agent.proc.frozen_cgroup import frozen_by
from agent.proc.oom_counts import memory_cgroup, oom_kills
from agent.proc.procfs import FEW_THREADS, ProcFs, reading
from agent.proc.sleep_ends import MAY_END, seconds_left
from agent.sources.logs.log_growth import own_log_fds, total_bytes
from agent.sources.look_context import LookContext
from agent.sources.progress_counters import take_beat, without_spinners
from agent.sources.source import Answer, LookDepth
from agent.sources.waits.other_ends import EPOLLS, IN_MEMORY, child_of, polled, watched, with_awaited
from agent.tools.ptrace_access import trace_obstacle
from agent.tools.syscall_names import fd_argument, path_argument, read_syscall, takes_lock
from shared.errors import NotPermitted
from shared.redaction.redact import redact, redact_words
from shared.wire.snapshot import BlockedThread, Holder, Process, Syscall

_LONGEST_COMMAND = 500
_LONGEST_PATH = 1024
_PATH_SECONDS = 0.3
_MOST_KERNEL_FRAMES = 64
_MOUNT_ID = re.compile(r"^mnt_id:\s*(\d+)$", re.MULTILINE)
_MOST_BLOCKED = 8
_MOST_HOLDERS = 8
_ONE_PER_GROUP = ("gloo_tcp_loop", "pt_nccl_watchdg")
"""Names of threads of which each process group of a backend has one."""


class ProcessSource:
    """Fills `process`; the beat after the look is added by the look."""

    name = "process"

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        pid = rank.stat.pid
        log_bytes = total_bytes(context.procfs, pid, own_log_fds(context, rank))
        process = read_process(context, pid, children=rank.children, log_bytes=log_bytes)
        blocked, group_threads = _other_threads(context.procfs, pid)
        told = {
            "blocked_threads": blocked,
            "group_threads": group_threads,
            "untraceable": trace_obstacle(context.procfs, pid),
        }
        return {"process": with_arguments(process.model_copy(update=told), context, self._pool, deadline)}


def with_arguments(process: Process, context: LookContext, pool: ThreadPool, deadline: Deadline) -> Process:
    """Add what a system call works on, when it ends, and what it waits for, as far as its process's memory can be read
    soon.
    """
    call = process.syscall
    if call is None:
        return process
    if path_argument(call.name) is not None or call.name in MAY_END | IN_MEMORY:
        read = partial(_arguments_of_syscall, context, process.pid, call)
        owner = (process.pid, process.started_at)
        found = pool.run({"path": read}, deadline.at_most(_PATH_SECONDS), owner=owner)["path"]
        process = process if isinstance(found, Exception) else process.model_copy(update={"syscall": found})
    return with_awaited(process, context)


def read_process(
    context: LookContext, pid: int, *, children: tuple[int, ...] = (), log_bytes: int | None = None
) -> Process:
    """Read the facts of one process, its beat first. Raises Gone."""
    procfs = context.procfs
    before = without_spinners(take_beat(procfs, pid, children=children, log_bytes=log_bytes), procfs, pid)
    stat = procfs.stat(pid)
    status, wchan = procfs.fields(pid, "status"), _wchan(procfs, pid)
    syscall = _syscall(context, pid)
    return Process.model_validate(
        {
            "pid": pid,
            "parent_pid": stat.parent_pid,
            "state": stat.state,
            "name": stat.name,
            "command": _command(procfs, pid, stat.state),
            "wchan": wchan,
            "syscall": syscall,
            "lock_holders": lock_holders(procfs, pid) if syscall is not None and takes_lock(syscall.name) else (),
            "kernel_stack": _kernel_stack(procfs, pid),
            "threads": stat.threads,
            "uid": int(status["Uid"].split()[1]) if "Uid" in status else None,
            "rss_bytes": stat.rss_bytes,
            "started_at": procfs.started_at(stat),
            "tracer_pid": int(status.get("TracerPid", 0)) or None,
            "oom_kills": oom_kills(procfs, pid),
            "memory_cgroup": memory_cgroup(procfs, pid),
            "frozen_by": frozen_by(procfs, pid, state=stat.state, wchan=wchan),
            "before": before,
        }
    )


def _command(procfs: ProcFs, pid: int, state: str) -> str:
    """Return the command line; not of a process in state D, whose memory may be locked."""
    if state == "D":
        return ""
    arguments = procfs.known_text(pid, "cmdline", most=16_384).rstrip("\0").split("\0")
    return redact_words(arguments)[:_LONGEST_COMMAND]


def holders_of(procfs: ProcFs, pids: Iterable[int], rank: int) -> tuple[Holder, ...]:
    """Describe who holds what a rank may wait for: the command lines of its own user's processes, others' names."""
    uid = procfs.uids(rank)[1:2]
    return tuple(_holder(procfs, pid, uid) for pid in islice(pids, _MOST_HOLDERS))


def _holder(procfs: ProcFs, pid: int, uid: tuple[int, ...]) -> Holder:
    is_theirs = bool(uid) and procfs.uids(pid)[1:2] == uid
    with suppress(Gone, NotPermitted):
        stat = procfs.stat(pid)
        return Holder(pid=pid, name=stat.name, command=_command(procfs, pid, stat.state) if is_theirs else "")
    return Holder(pid=pid)


def _wchan(procfs: ProcFs, pid: int, folder: str = "") -> str | None:
    wchan = procfs.known_text(pid, f"{folder}wchan")
    return wchan if wchan not in ("0", "") else None


def _kernel_stack(procfs: ProcFs, pid: int, folder: str = "") -> tuple[str, ...]:
    # [<0>] futex_do_wait+0x3a/0x60
    lines = procfs.known_text(pid, f"{folder}stack").splitlines()
    frames = (line.partition("] ")[2].strip() for line in lines[:_MOST_KERNEL_FRAMES])
    return tuple(frame for frame in frames if frame)


def _other_threads(procfs: ProcFs, pid: int) -> tuple[tuple[BlockedThread, ...], dict[str, int]]:
    """Return the threads beside the main one that are in state D, such as one that saves a checkpoint, and how many
    have each of the names that tell how many process groups there are.
    """
    found: list[BlockedThread] = []
    names: Counter[str] = Counter()
    for tid in procfs.tids(pid, FEW_THREADS):
        try:
            stat = procfs.stat(pid, tid)
            names[stat.name] += 1
            if tid != pid and len(found) < _MOST_BLOCKED and stat.state == "D":
                found.append(_blocked_thread(procfs, pid, tid, stat.name))
        except (Gone, NotPermitted):
            continue
    return tuple(found), {name: names[name] for name in _ONE_PER_GROUP if names[name]}


def _blocked_thread(procfs: ProcFs, pid: int, tid: int, name: str) -> BlockedThread:
    folder = f"task/{tid}/"
    call = None
    with suppress(Gone, NotPermitted):
        call = read_syscall(procfs, pid, tid)
    return BlockedThread(
        tid=tid,
        name=name,
        wchan=_wchan(procfs, pid, folder),
        syscall=call.name if call is not None and call.arguments else None,
        kernel_stack=_kernel_stack(procfs, pid, folder),
    )


def _syscall(context: LookContext, pid: int) -> Syscall | None:
    """Return the call that the main thread is in, with the file behind its descriptor."""
    with suppress(Gone, NotPermitted):
        call = read_syscall(context.procfs, pid)
        argument = None if call is None else fd_argument(call.name)
        if call is None or argument is None or len(call.arguments) <= argument:
            return None if call is None else Syscall(name=call.name, child=child_of(context.procfs, pid, call))
        fd = call.arguments[argument] & 0xFFFF_FFFF
        fds = watched(context.procfs, pid, fd) if call.name in EPOLLS else ()
        return _with_file(context, pid, call.name, fd).model_copy(update={"fds": fds})
    return None


def _arguments_of_syscall(context: LookContext, pid: int, syscall: Syscall) -> Syscall:
    """Read what the call's arguments point to, if the process is in that call still."""
    call, procfs = read_syscall(context.procfs, pid), context.procfs
    if call is None or call.name != syscall.name:
        return syscall
    at = path_argument(call.name)
    if at is None:
        read = partial(_bytes_at, procfs, pid)
        left = seconds_left(call.name, call.arguments, read)
        return syscall.model_copy(update={"fds": polled(call, read), "ends_in_seconds": left})
    if len(call.arguments) <= at:
        return syscall
    path = _bytes_at(procfs, pid, call.arguments[at], _LONGEST_PATH).partition(b"\0")[0].decode(errors="replace")
    if not path:
        return syscall
    path = path if path.startswith("/") else f"{procfs.link(pid, 'cwd')}/{path}"
    kind = context.mounts(pid).type_of_path(path)
    return syscall.model_copy(update={"target": redact(path), "file_system": kind})


def _bytes_at(procfs: ProcFs, pid: int, address: int, most: int) -> bytes:
    with procfs.opened(pid, "mem") as memory, reading(pid):
        return os.pread(memory, most, address)


def _with_file(context: LookContext, pid: int, name: str, fd: int) -> Syscall:
    try:
        target = context.procfs.link(pid, f"fd/{fd}")
        found = _MOUNT_ID.search(context.procfs.text(pid, f"fdinfo/{fd}"))
        mounted = context.mounts(pid).type_of_mount(int(found[1])) if found is not None else None
    except (Gone, NotPermitted):
        return Syscall(name=name, fd=fd)
    return Syscall(name=name, fd=fd, target=target, file_system=mounted if target.startswith("/") else None)
