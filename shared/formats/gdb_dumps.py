"""Reads what people keep of gdb: `thread apply all bt`, or `bt` of one thread, with its prompts and cut lines.

Frames that gdb has wrapped are put together. Thread 1 is the main thread, and the process has its id.
"""

import re

from shared.errors import UnreadableDump
from shared.formats.stack_dumps import parse_gdb_text
from shared.wire.stacks import Stacks

# Thread 1 (Thread 0x7f31c0a1 (LWP 4784) "python"):        Thread 12 (LWP 4786):
GDB_HEAD = re.compile(r"Thread (?P<number>\d{1,6}) \((?:Thread 0x[0-9a-f]{1,16} \()?(?:LWP|process) \d{1,10}\).*")
_MAIN = re.compile(r"^Thread 1 \((?:Thread 0x[0-9a-f]{1,16} \()?(?:LWP|process) (\d{1,10})\)", re.MULTILINE)
# #0  0x00007f31c0a1 in poll () from /lib64/libc.so.6        #4  ncclProxyProgress (proxyState_=0x5603) at proxy.cc:868
#   and not `#1 all_reduce from /opt/torch/distributed/distributed_c10d.py:3252`, of a failed collective in a rank's log
GDB_BEGINS = re.compile(
    r"#(?P<number>\d{1,4}) {1,3}\*{0,2}"
    r"(?:0x[0-9a-f]{1,16} in \S.*|\S{1,500} \((?:.*\)\*{0,2}(?: (?:at|from) .*)?|[^)]*,\s*))"
)
GDB_WRAPPED = re.compile(r" {2,}\S")
_ONE_THREAD = "Thread 1 (LWP 0):"


def parse_gdb_processes(text: str) -> list[Stacks]:
    """Read all processes: one begins where the number of a thread, or of a frame without any, comes again."""
    lines = text.split("\n")
    head = GDB_HEAD if any(map(GDB_HEAD.match, lines)) else GDB_BEGINS
    processes, seen = [list[str]()], set[str]()
    for line in lines:
        match = head.match(line)
        if match is not None and match["number"] in seen and (head is GDB_HEAD or match["number"] == "0"):
            processes.append([])
            seen.clear()
        seen |= set() if match is None else {match["number"]}
        processes[-1].append(line)
    return [parse_gdb_dump("\n".join(one)) for one in processes]


def parse_gdb_dump(text: str) -> Stacks:
    """Read one process. Raises UnreadableDump where no thread is in it."""
    lines: list[str] = []
    for line in text.replace("**", "").replace("\r", "").split("\n"):
        if GDB_WRAPPED.match(line) and lines and GDB_BEGINS.match(lines[-1]):
            lines[-1] += " " + line.strip()
        elif GDB_HEAD.match(line):
            lines.append(line.rstrip().removesuffix(":") + ":")
        elif GDB_BEGINS.match(line):
            lines.append(line.rstrip())
    if not lines:
        raise UnreadableDump("no frame in what should be a gdb backtrace")
    if not any(map(GDB_HEAD.match, lines)):
        stacks = parse_gdb_text("\n".join([_ONE_THREAD, *lines]))
        (thread,) = stacks.threads
        return stacks.model_copy(update={"threads": (thread.model_copy(update={"tid": None, "name": "MainThread"}),)})
    main = _MAIN.search(text)
    return parse_gdb_text("\n".join(lines), pid=None if main is None else int(main[1]))
