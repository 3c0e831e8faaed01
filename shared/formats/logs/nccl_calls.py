"""NCCL's own record of what it was asked for: the lines of `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL`.

A communicator is a local pointer in these lines. Across processes it is known by the commId that Init lines print, or,
made by a split, by its parent, the number of the split and its colour. `opCount` is hexadecimal, counts per
communicator, and is always 0 in some versions: then calls are counted, where the log is there from the beginning.
Lines of several processes may share a file, or even a line: the nearest header before a call shows whose it is.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.isolation import costs_itself
from shared.wire.nccl_calls import MOST_CALLS, MOST_COMMUNICATORS, LoggedCall, LoggedCommunicator

_LONGEST_LINE = 4000
MOST_CALL_LINES = 20_000
"""Of one file, the last."""
CALL_HINT = "opCount "
INIT_HINT = "- Init "

# node1:4242:4250 [3] NCCL INFO …
_HEADER = re.compile(r"(?<![\w.-])(?P<host>[\w.-]{1,255}):(?P<pid>\d{1,10}):\d{1,10} \[\d{1,4}\] ")
# AllReduce: opCount 1f sendbuff 0x7f00 recvbuff 0x7f00 count 4096 datatype 7 op 0 root 0 comm 0x55d0 [nranks=4]
#   stream 0x55e0                                NCCL 2.4 to 2.30; RCCL adds: task 0 globalrank 2
_CALL = re.compile(
    r"(?<!\w)(?P<op>[A-Z]\w{2,30}): opCount (?P<number>[0-9a-f]{1,15}) sendbuff \S{1,20} recvbuff \S{1,20} "
    r"count (?P<count>\d{1,18}) datatype (?P<datatype>\d{1,3}) op (?P<reduction>\d{1,9}) root (?P<root>-?\d{1,9}) "
    r"comm (?P<comm>0x[0-9a-f]{1,16}) \[nranks=(?P<size>\d{1,7})\] stream (?:\S{1,20})"
    r"(?: task \d{1,9} globalrank (?P<rank>\d{1,7}))?"
)
# ncclCommInitRank comm 0x55d0 rank 3 nranks 4 cudaDev 3 nvmlDev 3 busId 85000 commId 0x9f2c - Init START
# comm 0x55d0 rank 3 nranks 4 cudaDev 3 busId 85000 commId 0x9f2c - Init COMPLETE                    NCCL 2.18 to 2.20
# ncclCommSplit comm 0x55f0 rank 1 nranks 2 cudaDev 3 nvmlDev 3 busId 85000 parent 0x55d0 splitCount 1 color 7 key 1-
#   Init START                                         splitCount 2.24 to 2.28, childCount from 2.29, neither in 2.23
_INIT = re.compile(
    r"(?<!\w)comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,7}) nranks (?P<size>\d{1,7}) cudaDev "
    r"(?P<rest>[^\n]{0,300}?) ?- Init (?:START|COMPLETE)"
)
_IDENTITY = re.compile(r"commId (0x[0-9a-f]{1,16})")
_PARENT = re.compile(
    r"parent (?P<comm>0x[0-9a-f]{1,16})(?: (?:splitCount|childCount) (?P<split>\d{1,9}))? color (?P<color>-?\d{1,12})"
)


@dataclass
class _Open:
    """A communicator while its lines are read."""

    host: str
    pid: int
    size: int
    identity: str = ""
    comm_rank: int | None = None
    rank: int | None = None
    calls: list[LoggedCall] = field(default_factory=list)
    total: int = 0
    whole: bool = False
    """Was its Init line seen, so that no call before the first is missing?"""


class _Reading:
    def __init__(self) -> None:
        self.open: dict[tuple[str, int, str], _Open] = {}
        self.done: list[_Open] = []
        self.mangled = False

    def add(self, line: str) -> None:
        headers = [(match.end(), match["host"], int(match["pid"])) for match in _HEADER.finditer(line)]
        if not headers:
            return
        for match in _INIT.finditer(line) if INIT_HINT in line else ():
            self._begin(match, *_writer(headers, match.start()))
        calls = list(_CALL.finditer(line)) if CALL_HINT in line else []
        for match in calls:
            self._call(match, *_writer(headers, match.start()))
        self.mangled = self.mangled or line.count(CALL_HINT) > len(calls)

    def _begin(self, match: re.Match[str], host: str, pid: int) -> None:
        key = (host, pid, match["comm"])
        known = self.open.get(key)
        identity = self._identity(match, host, pid, known)
        if known is not None and known.identity == identity and known.size == int(match["size"]):
            return
        if known is not None:
            self.done.append(known)
        if len(self.open) < MOST_COMMUNICATORS:
            self.open[key] = _Open(host, pid, int(match["size"]), identity, int(match["rank"]), whole=True)

    def _identity(self, match: re.Match[str], host: str, pid: int, known: _Open | None) -> str:
        identity = _IDENTITY.search(match["rest"])
        if identity is not None:
            return identity[1]
        parent = _PARENT.search(match["rest"])
        if parent is None:  # the Init COMPLETE line of a split may name neither
            return known.identity if known is not None and not known.calls else ""
        above = self.open.get((host, pid, parent["comm"]))
        if above is None or not above.identity:
            return ""
        return "" if parent["split"] is None else f"{above.identity}/{parent['split']}/{parent['color']}"

    def _call(self, match: re.Match[str], host: str, pid: int) -> None:
        key = (host, pid, match["comm"])
        if key not in self.open and len(self.open) >= MOST_COMMUNICATORS:
            return
        opened = self.open.setdefault(key, _Open(host, pid, int(match["size"])))
        numbers = (int(match[name]) for name in ("count", "datatype", "reduction", "root"))
        opened.calls.append(LoggedCall(int(match["number"], 16), match["op"], *numbers))
        opened.total += 1
        if len(opened.calls) > 2 * MOST_CALLS:
            del opened.calls[:MOST_CALLS]
        if match["rank"] is not None:
            opened.rank = int(match["rank"])


def _writer(headers: list[tuple[int, str, int]], start: int) -> tuple[str, int]:
    before = [header for header in headers if header[0] <= start] or headers[:1]
    return before[-1][1:]


@costs_itself(lambda *_, **__: (), part="calls in NCCL logs")
def find_communicators(
    lines: Iterable[str], *, ended: bool = True, whole: bool = True
) -> tuple[LoggedCommunicator, ...]:
    """Return every communicator in some lines of one file, in the order of hosts and pids.

    `ended`: does the file end with a whole line? One written in blocks does not, and lacks the last calls. NCCL writes
    its debug file line by line, but a standard output that is no terminal in blocks (`src/debug.cc`): lines of others
    in the file show that it is one.
    `whole`: are all its lines here? Where the middle is left out, calls without numbers cannot be counted.
    """
    reading = _Reading()
    lines = list(lines)
    telling = [line for line in lines if CALL_HINT in line or INIT_HINT in line]
    spare = sum(CALL_HINT in line for line in telling) - MOST_CALL_LINES
    for line in telling:
        if spare > 0 and CALL_HINT in line:
            spare, whole = spare - 1, False
        else:
            reading.add(line[:_LONGEST_LINE])
    opened = sorted((*reading.done, *reading.open.values()), key=lambda each: (each.host, each.pid))
    cut = reading.mangled or not ended or (bool(opened) and any(_is_strange(line) for line in lines))
    return tuple(_closed(each, cut=cut, whole=whole) for each in opened[:MOST_COMMUNICATORS])


def _is_strange(line: str) -> bool:
    """Was it written by something other than NCCL?"""
    return "NCCL " not in line and not line.isspace() and line != ""


def _closed(opened: _Open, *, cut: bool, whole: bool) -> LoggedCommunicator:
    calls = opened.calls[-MOST_CALLS:]
    dumb = len(calls) > 1 and not any(call.number for call in calls)
    countable = opened.whole and whole
    if dumb and countable:
        first = opened.total - len(calls)
        calls = [call._replace(number=first + index) for index, call in enumerate(calls)]
    return LoggedCommunicator(
        host=opened.host,
        pid=opened.pid,
        identity=opened.identity,
        comm_rank=opened.comm_rank,
        rank=opened.rank,
        size=opened.size,
        calls=tuple(calls),
        counted=not dumb or countable,
        cut=cut,
    )
