"""Reads what people keep of gdb: `thread apply all bt`, or `bt` of one thread, with its prompts and cut lines.

Frames that gdb has wrapped are put together. Thread 1 is the main thread, and the process has its id.
"""

import re
from itertools import islice

from shared.errors import UnreadableDump
from shared.formats.stack_dumps import parse_gdb_text
from shared.wire.stacks import Stacks

# Thread 1 (Thread 0x7f31c0a1 (LWP 4784) "python"):        Thread 12 (LWP 4786):
_HEAD = re.compile(r"Thread \d{1,6} \((?:Thread 0x[0-9a-f]{1,16} \()?(?:LWP|process) \d{1,10}\)")
_MAIN = re.compile(r"^Thread 1 \((?:Thread 0x[0-9a-f]{1,16} \()?(?:LWP|process) (\d{1,10})\)", re.MULTILINE)
# #0  0x00007f31c0a1 in poll () from /lib64/libc.so.6        #4  ncclProxyProgress (proxyState_=0x5603) at proxy.cc:868
_FRAME = re.compile(r"#\d{1,4} {1,3}(?:\*\*)?(?:0x[0-9a-f]{1,16} in )?\S")
_WRAPPED = re.compile(r" {2,}\S")
# #1 all_reduce from /opt/venv/torch/distributed/distributed_c10d.py:3252        #7 clone from ??:0
#   below `Stack trace of the failed collective:` in a rank's log; what gdb calls `from` is a library, without a line
_OF_PYTORCH = re.compile(r".* from \S{0,1000}:\d{1,9}\s*$|\[rank\d{1,7}\]:|.*Stack trace of the failed collective")
_OF_GDB = re.compile(r"\(gdb\) |\[New LWP |GNU gdb ")
_LOOKED_AT = 100
_ONE_THREAD = "Thread 1 (LWP 0):"


def is_gdb_text(text: str) -> bool:
    """Are most lines frames and threads as gdb prints them, or does it begin as a session with gdb does?"""
    lines = list(islice((line for line in text.split("\n") if line.strip()), _LOOKED_AT))
    if any(_OF_PYTORCH.match(line[:4000]) for line in lines):
        return False
    frames = sum(_FRAME.match(line) is not None for line in lines)
    others = sum(bool(_HEAD.match(line) or _WRAPPED.match(line) or _OF_GDB.match(line)) for line in lines)
    return frames > 1 and frames + others > len(lines) / 2


def parse_gdb_dump(text: str) -> Stacks:
    """Read one process. Raises UnreadableDump where no thread is in it."""
    lines: list[str] = []
    for line in text.replace("**", "").replace("\r", "").split("\n"):
        if _WRAPPED.match(line) and lines and _FRAME.match(lines[-1]):
            lines[-1] += " " + line.strip()
        elif _HEAD.match(line):
            lines.append(line.rstrip().removesuffix(":") + ":")
        elif _FRAME.match(line):
            lines.append(line.rstrip())
    if not lines:
        raise UnreadableDump("no frame in what should be a gdb backtrace")
    if not any(map(_HEAD.match, lines)):
        stacks = parse_gdb_text("\n".join([_ONE_THREAD, *lines]))
        (thread,) = stacks.threads
        return stacks.model_copy(update={"threads": (thread.model_copy(update={"tid": None, "name": "MainThread"}),)})
    main = _MAIN.search(text)
    return parse_gdb_text("\n".join(lines), pid=None if main is None else int(main[1]))
