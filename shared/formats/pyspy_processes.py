"""Cuts what people keep of py-spy's text into processes: they paste several below each other, and shorten them.

1. `Process 4242: …` begins a process. Where that line was left out a main thread begins one: a process has only one.
2. Main threads that are told directly below each other share the frames that follow.
3. What is neither a thread nor a frame is somebody's own words, or a log.
"""

import re

from shared.formats.stack_dumps import PYSPY_FRAME, PYSPY_THREAD, parse_pyspy_text
from shared.wire.stacks import Stacks

# Process 4242: python train.py
_PROCESS = re.compile(r"^(?=Process \d{1,10}: )", re.MULTILINE)
# Thread 4242 (idle): "MainThread"
_MAIN_THREAD = re.compile(r'^Thread (?P<tid>0x[0-9A-Fa-f]+|\d{1,10})[^\n"]{0,60}"MainThread"[ \t\r]*$', re.MULTILINE)
# decode worker pid=4242 (MainThread active):        somebody's own words above the frames
_PID = re.compile(r"\bpid[ =:]{1,2}(?P<tid>\d{1,10})\b")
# Python v3.11.4 (/usr/bin/python3.11)
_OF_PYSPY = re.compile(r"(?:Process \d{1,10}: |Python v\d).*")

_HEAD = 2000


def parse_pyspy_processes(text: str) -> list[Stacks]:
    """Read all processes of a text, in its order. Raises UnreadableDump where one has no thread."""
    return [_parsed(one) for part in _PROCESS.split(text) if part.strip() for one in _by_main_thread(part)]


def lines_beside(text: str) -> list[str]:
    """Return the lines that py-spy has not printed."""
    return [line for line in text.split("\n") if line.strip() and not _is_pyspys(line)]


def _is_pyspys(line: str) -> bool:
    return any(one.fullmatch(line[:2000]) for one in (PYSPY_FRAME, PYSPY_THREAD, _OF_PYSPY))


def _by_main_thread(part: str) -> list[str]:
    heads = list(_MAIN_THREAD.finditer(part))
    if len(heads) < 2:
        return [part]
    pieces: list[str] = []
    ends = [*(head.start() for head in heads[1:]), len(part)]
    for head, end in reversed(list(zip(heads, ends, strict=True))):
        below = part[head.end() : end]
        shared = pieces[-1].partition("\n")[2] if pieces and below == "\n" else ""
        pieces.append(head[0] + below + shared)
    return pieces[::-1]


def _parsed(one: str) -> Stacks:
    stacks = parse_pyspy_text(one)
    main = _MAIN_THREAD.search(one) or _PID.search(one[:_HEAD])
    if stacks.pid is not None or main is None or not main["tid"].isdecimal():
        return stacks
    return stacks.model_copy(update={"pid": int(main["tid"])})
