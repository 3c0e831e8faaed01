"""Cuts what people keep of py-spy's text into processes: they paste several below each other, and shorten them.

1. `Process 4242: …` begins a process. Where that line was left out a main thread begins one: a process has only one.
2. Main threads that are told directly below each other share the frames that follow.
3. Servers have py-spy run by a watchdog of theirs and write what it prints into their log. Their processes are titled,
   in a job of tensor parallelism alone by the rank.
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
PYSPY_HEADS = re.compile(r"(?:Process \d{1,10}: |Python v\d).*")

# Process 4242: sglang::scheduler_TP3        Process 4242: VLLM::Worker_TP3_EP3
_TITLE = re.compile(r"Process (?P<pid>\d{1,10}): (?:sglang::scheduler|VLLM::Worker)_(?P<place>\w{1,60})\s*")
_RANK = re.compile(r"TP(\d{1,7})(?:_EP\d{1,7})?")
_HEAD = 2000


def parse_pyspy_processes(text: str) -> list[Stacks]:
    """Read all processes of a text, in its order. Raises UnreadableDump where one has no thread."""
    first, *parts = _PROCESS.split(text)
    parts = [first, *parts] if not parts or any(map(is_pyspys, first.split("\n"))) else parts
    return [_parsed(one) for part in parts if part.strip() for one in _by_main_thread(part)]


def ranks_by_title(text: str) -> dict[int, int]:
    """3. Return ranks by pid; none where a title has a place of other parallelism, too, or two are equal."""
    titles = [match for line in text.split("\n") if (match := _TITLE.fullmatch(line[:2000])) is not None]
    places = [_RANK.fullmatch(title["place"]) for title in titles]
    found = {int(title["pid"]): int(place[1]) for title, place in zip(titles, places, strict=True) if place is not None}
    return found if all(places) and len(set(found.values())) == len(found) else {}


def is_pyspys(line: str) -> bool:
    """Has py-spy printed a line, by its form?"""
    return any(one.fullmatch(line[:2000]) for one in (PYSPY_FRAME, PYSPY_THREAD, PYSPY_HEADS))


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
