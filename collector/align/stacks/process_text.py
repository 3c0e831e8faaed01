"""A process's state in words: what it sleeps in, on which file, and who traces it."""

from shared.wire.snapshot import Process

NO_SYSCALL = ("running", "restart_syscall")
"""`restart_syscall` is what our own short stop leaves behind: the wait channel tells more."""

_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in uninterruptible sleep",
    "T": "stopped by a signal",
    "t": "stopped by a debugger",
    "Z": "ended, not yet reaped",
    "X": "ended",
    "I": "idle",
}


def process_in_words(process: Process) -> str:
    """Say the process's state in words, e.g. `sleeping in read() on pipe:[81234], fd 9`."""
    words = _STATES.get(process.state, process.state)
    syscall = process.syscall
    if syscall is not None and syscall.name not in NO_SYSCALL:
        words += f" in {syscall.name}()"
        if syscall.target:
            words += f" on {syscall.target}"
            words += f" ({syscall.file_system})" if syscall.file_system else ""
            words += "" if syscall.fd is None else f", fd {syscall.fd}"
    if process.wchan and process.wchan != "0":
        words += f" [{process.wchan}]"
    if process.tracer_pid:
        words += f", traced by pid {process.tracer_pid}"
    return words


def is_stopped(process: Process) -> bool:
    """Was it stopped by a signal?"""
    return process.state == "T"


def is_held(process: Process) -> bool:
    """Was it stopped, or frozen with its cgroup? Wherever it was, it is idle in nothing."""
    return is_stopped(process) or process.frozen_by is not None
