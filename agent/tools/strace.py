"""Runs strace on a process for some seconds: what it asks of the kernel, and which threads wait in one call throughout.

strace seizes its process without stopping it first and lets go of it whatever ends strace itself (ptrace(2),
PTRACE_SEIZE). `-s 0` leaves out what is read and written.
"""

import re
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.proc.procfs import ProcFs
from agent.tools.stop_guard import trace_process
from shared.missing import Reason
from shared.redaction.redact import redact
from shared.wire.debug_output import SyscallTrace, WaitingCall

HOW_TO_INSTALL = "strace is not installed: `apt-get install strace`, `dnf install strace`"

_MOST_LINES = 500
_MOST_READ = 200_000
_LONGEST_LINE = 500
_MOST_NAMES = 64
_MOST_WAITING = 256
# [pid  4784] 10:10:44.749791 read(3<pipe:[125253]>,  <unfinished ...>
# 10:10:44.749791 <... futex resumed>) = 0 <0.000012>
_LINE = re.compile(r"(?:\[pid +(\d{1,10})\] )?\d\d:\d\d:\d\d\.\d{1,9} (.{1,4000})")
_CALL = re.compile(r"(\w{1,40})\(")
_RESUMED = re.compile(r"<\.\.\. (\w{1,40}) resumed>")
_UNFINISHED = re.compile(r"\s*(?:<unfinished \.\.\.>|<detached \.\.\.>|strace: Process \d{1,10} detached)\s*$")
_ANSWERED = re.compile(r"\) += ")


def trace_syscalls(
    procfs: ProcFs, pid: int, program: Path | None, *, seconds: float, deadline: Deadline
) -> SyscallTrace:
    """Return the system calls of all threads of a process. Raises Unavailable or Gone."""
    if program is None:
        raise Unavailable(Reason.NOT_FOUND, HOW_TO_INSTALL)
    limit = deadline.at_most(seconds)
    command = [str(program), "-f", "-tt", "-T", "-y", "-s", "0", "-o", "/dev/stdout", "-p", str(pid)]
    output = trace_process(procfs, pid, command, limit, end_with=signal.SIGINT)
    text = output.stdout.decode(errors="replace")
    if not text and output.status not in (None, 0):
        said = output.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
        raise Unavailable(Reason.UNREADABLE, f"strace failed: {redact(said[-1])[:200]}")
    return parse_strace(text.splitlines(), pid=pid, seconds=limit.seconds)


def parse_strace(lines: Iterable[str], *, pid: int, seconds: float) -> SyscallTrace:
    """Read what `strace -f -tt` prints."""
    counts: Counter[str] = Counter()
    begun: dict[int, str] = {}
    calls: Counter[int] = Counter()
    kept: list[str] = []
    total = 0
    for line in lines:
        match = _LINE.fullmatch(_without_tid(line)) if len(line) < 4200 else None
        if match is None or total >= _MOST_READ:
            continue
        total += 1
        tid, said = int(match[1] or pid), match[2]
        if len(kept) < _MOST_LINES:
            kept.append(redact(line)[:_LONGEST_LINE])
        call = _CALL.match(said)
        if call is not None:
            counts[call[1]] += 1
            calls[tid] += 1
            begun[tid] = said
        if _RESUMED.match(said) or _ANSWERED.search(said):
            begun.pop(tid, None)
    waiting = [
        WaitingCall(tid=tid, call=redact(_UNFINISHED.sub("", said).rstrip(", "))[:_LONGEST_LINE])
        for tid, said in sorted(begun.items())[:_MOST_WAITING]
        if calls[tid] == 1
    ]
    return SyscallTrace(
        seconds=round(seconds, 3),
        counts=dict(counts.most_common(_MOST_NAMES)),
        waiting=tuple(waiting),
        lines=tuple(kept),
        truncated=total > len(kept),
    )


def _without_tid(line: str) -> str:
    """Bring `4787  10:10:44 …`, as strace writes into files, to the form that it has on a terminal."""
    tid, _, rest = line.partition(" ")
    return f"[pid {tid}] {rest.lstrip()}" if tid.isascii() and tid.isdecimal() else line
