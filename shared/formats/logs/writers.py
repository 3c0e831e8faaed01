"""Who wrote a line: the marks that PyTorch, launchers and trainers put before it, and the header of NCCL.

Some marks always name the global rank: `[rank3]:` of PyTorch, and mpirun's. Others may also be a place in a group
(`[Rank 3]`), a local rank (torchrun's roles, `host:3`) or a task that runs several ranks (srun's labels). They show
which lines belong together; they count as ranks only once all files of a job have been read: see `Naming`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from shared.formats.line_heads import Headed, Heads
from shared.isolation import costs_itself

_CUT = re.compile(r"(?=\[(?:rank|default)\d{1,7}\]:)")
# 12%|##  | 3/25 [00:09<01:08][rank0]:[E1121 09:10:11.123456789 ProcessGroupNCCL.cpp:655] …      [rank3]: ValueError: …
_RANK = re.compile(r"\[rank(\d{1,7})\]:")
# [default3]:Traceback (most recent call last):          [trainer3]:…        torchrun --tee, --role; the local rank
# [1,3]<stderr>:Traceback (most recent call last):                            mpirun --tag-output, job and rank
# Sat Nov 21 09:10:11 2026[1,3]<stderr>:Traceback (most recent call last):    mpirun --timestamp-output
# [3]<stderr>:Traceback (most recent call last):                              horovodrun, rank
# (RayTrainWorker pid=615, ip=10.72.7.6) Traceback (most recent call last):
_LAUNCHERS = re.compile(
    r"(?:\[(?!(?:rank|Rank|RANK))[A-Za-z][A-Za-z_.-]{0,40}(?P<local>\d{1,7})\]:"
    r"|(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?"
    r"\[(?:\d{1,7},)?(?P<rank>\d{1,7})\]<std(?:out|err)>: ?"
    r"|\([\w:.]{1,100} pid=\d{1,10}[^()]{0,60}\) )"
)
# [E ProcessGroupNCCL.cpp:828] [Rank 3] Watchdog caught …                                          PyTorch up to 2.1
# [rank: 3] Seed set to 1234            [rank=3] step 9                [RANK 3] saving            rank 3: no such shard
_PLACE = re.compile(r"\[(?:rank ?[:=] ?|Rank[ :=] ?|RANK[ :=] ?)(?P<rank>\d{1,7})\]|^(?:rank|Rank|RANK) ?(\d{1,7}): ")
_PLACE_WITHIN = 200
# [node1:3]: ValueError: no shard          2026-11-21 09:10:11.123<tab>node1:3<tab>trainer:648<tab>ERROR<tab>no shard
_HOST_AND_NUMBER = re.compile(
    r"(?:\[(?=[^\]:]{0,254}\d)|(?<=\t)(?=[^\t:]{0,254}\d))(?P<host>[A-Za-z][\w-]{0,63}(?:\.(?!py:)[\w-]{1,63}){0,6}):"
    r"(?P<rank>\d{1,4})(?:\]:|(?=\t))"
)
# node04: [rank3]:[E1121 …                                                                   pdsh, clush, dsh
#   3: [rank3]:[E1121 …                                                                      srun --label
_LABEL = re.compile(
    r" {0,6}(?:(?P<task>\d{1,6})|(?P<host>(?!rank\d)(?=[\w.-]{0,253}\d)[A-Za-z][\w.-]{0,253})):(?: (?P<rest>.*)|$)"
)
_LABELLED = 0.9
_TRIED = 200
_MOST_FOR_NAMING = 2000
"""Of one file's lines that tell nothing: whoever marks his lines marks them all."""
# [2026-11-21 09:10:11] node1:4242:4250 [3] transport/net_ib.cc:1296 NCCL WARN …         node1:4242:4250 [3] NCCL INFO …
_NCCL = re.compile(r"(?<![\w.-])(?P<host>[\w.-]{1,255}):(?P<pid>\d{1,10}):\d{1,10} \[\d{1,4}\] ")


# [2026-11-21 09:10:11 DP1 TP4] Watchdog timeout        (EngineCore_DP1 pid=4242) ERROR …
# (Worker pid=615, ip=10.72.7.6) …        [trainer3]:Traceback …        [node1:3]: …        INFO [train.py:1100] (0/3) …
_NAMED = re.compile(
    r"\[[\d -]{10}[ T][\d:.,]{8,15} (?P<places>[A-Z]{2,8}\d{1,6}(?: [A-Z]{2,8}\d{1,6}){0,4})\]"
    r"|\((?P<process>[\w:.]{1,100} pid=\d{1,10}(?:, ip=[\w.:-]{1,100})?)\)"
    r"|\.py:\d{1,6}\] \((?P<place>\d{1,5}/\d{1,5})\) "
    r"|^\[(?!rank)(?P<role>[A-Za-z][\w.-]{0,60}\d|[\w.-]{1,60}:\d{1,5})\]:"
)


# ERROR 10-27 13:45:16 [core.py:710] Traceback …        behind (EngineCore_DP1 pid=4242)                        vLLM
_LOGGER = re.compile(r"(?:ERROR|CRITICAL|WARNING|INFO) \d\d-\d\d \d\d:\d\d:\d\d \[[\w./]{1,60}:\d{1,6}\] ?")


class Writer(NamedTuple):
    """Whose line it is: lines with equal `mark` are of one process; `rank` is global, None where the mark is silent."""

    mark: str
    rank: int | None
    body: str
    """The line behind the marks."""


class WriterMark(StrEnum):
    """A mark with a number that is not always the global rank."""

    PLACE = "[Rank N]"
    LOCAL = "[roleN]:"
    HOST = "host:N"
    TASK = "N:"


@dataclass(frozen=True)
class Naming:
    """Which marks of a job's files name global ranks."""

    marks: frozenset[WriterMark] = frozenset()

    def rank_of(self, line: str, label: str = "") -> int | None:
        """Return the rank that a line, less its label, is from by the surest of these marks."""
        said = dict(_numbers(line, label))
        return next((said[mark] for mark in WriterMark if mark in self.marks and mark in said), None)


NO_NAMING = Naming()


def cut_apart(line: str) -> list[str]:
    """Return the pieces of a line into which several ranks wrote, each with its rank's mark."""
    glued = "[rank" in line[1:] or "[default" in line[1:]
    return [piece for piece in _CUT.split(line) if piece] if glued else [line]


def rank_of_line(line: str) -> int | None:
    """Return the global rank that a line says it is from; None where it does not say."""
    match = _RANK.search(line)
    if match is not None:
        return int(match[1])
    launcher = _LAUNCHERS.match(line)
    return None if launcher is None or launcher["rank"] is None else int(launcher["rank"])


def writer_of(line: str) -> Writer:
    """Take a line's marks apart from what it says."""
    launcher = _LAUNCHERS.match(line)
    rest = line if launcher is None else line[launcher.end() :]
    rank = _RANK.search(rest)
    if rank is not None:
        body = rest[rank.end() :]
        return Writer(rank[0], int(rank[1]), body.removeprefix(" "))
    if launcher is None:
        place = _PLACE.match(line)
        return Writer("", None, line) if place is None else Writer(place[0], None, line[place.end() :].lstrip(": "))
    logger = _LOGGER.match(rest)
    body = rest if logger is None else rest[logger.end() :]
    return Writer(launcher[0], None if launcher["rank"] is None else int(launcher["rank"]), body)


def name_of_writer(line: str) -> dict[str, str]:
    """Return what a process calls itself in its line, as a field of an event; empty where it says nothing."""
    names = line[:1] in "[(" or any(mark in line[:80] for mark in ("[20", " pid=", "] ("))
    match = _NAMED.search(line[:300]) if names else None
    return {} if match is None else {"writer": next(filter(None, match.groups()))}


def process_of_line(line: str) -> dict[str, str]:
    """Return host and pid of the NCCL header of a line, as fields of an event; empty where it has none."""
    match = _NCCL.search(line) if "NCCL " in line else None
    return {} if match is None else {"writer_host": match["host"], "writer_pid": match["pid"]}


def labeller_of(lines: Sequence[str]) -> Callable[[str], Headed]:
    """Return what labels the lines of a file: it has a launcher's labels on nearly all lines, or on none.

    Numbers that only count the lines are no labels.
    """
    cut = Heads(lines).cut
    first = (cut(line).line for line in lines[:_TRIED])
    return (lambda line: _labelled(cut(line))) if _is_labelled([line for line in first if line.strip()]) else cut


def _labelled(each: Headed) -> Headed:
    match = _LABEL.match(each.line)
    return each if match is None else Headed(match["task"] or match["host"], each.head, match["rest"] or "")


def _is_labelled(spoken: Sequence[str]) -> bool:
    matches = [match for line in spoken if (match := _LABEL.match(line)) is not None]
    numbers = [int(match["task"]) for match in matches if match["task"] is not None]
    rises = len(numbers) > 1 and all(later > earlier for earlier, later in pairwise(numbers))
    only_counts = rises and numbers[-1] - numbers[0] >= 2 * len(numbers)
    return bool(matches) and len(matches) >= _LABELLED * len(spoken) and not only_counts


@costs_itself(lambda files: NO_NAMING, part="who wrote lines of logs")
def naming_of(files: Iterable[Sequence[str]], tells: Callable[[str], bool] = bool) -> Naming:
    """Return which marks name global ranks in all files of one job, by the lines that tell, and some of all others.

    1. With PyTorch's own marks beside them, `[Rank 3]` is a place in a group.
    2. No mark is believed where a rank that PyTorch names itself contradicts it.
    3. A local rank is the rank on a job's only node: where one file has such marks, and no two hosts.
    4. A number behind a host is local where two hosts have the same; a task is local to its step where two files do.
    """
    seen: dict[WriterMark, set[int]] = defaultdict(set)
    numbered: set[tuple[int, str]] = set()
    hosts: set[str] = set()
    wrong: set[WriterMark] = set()
    for number, lines in enumerate(files):
        some = dict.fromkeys((*lines[:: 1 + len(lines) // _MOST_FOR_NAMING], *filter(tells, lines)))
        for label, line in dict.fromkeys((each.label, each.line) for each in map(labeller_of(lines), some)):
            if label == "" and "[" not in line and "\t" not in line and "ank" not in line:
                continue
            sure = rank_of_line(line)
            wrong |= set() if sure is None else {WriterMark.PLACE}  # 1
            for mark, rank in _numbers(line, label):
                seen[mark].add(number)
                wrong |= {mark} if sure not in (None, rank) else set()  # 2
                numbered |= {(rank, _host(line, label))} if mark is WriterMark.HOST else set()
                hosts |= {_host(line, label)} if mark is WriterMark.LOCAL else set()
    if len(seen[WriterMark.LOCAL]) > 1 or len(hosts) > 1:  # 3
        wrong.add(WriterMark.LOCAL)
    if len({rank for rank, _ in numbered}) < len(numbered):  # 4
        wrong.add(WriterMark.HOST)
    if len(seen[WriterMark.TASK]) > 1:
        wrong.add(WriterMark.TASK)
    return Naming(frozenset(mark for mark, numbers in seen.items() if numbers) - wrong)


def _host(line: str, label: str) -> str:
    match = _HOST_AND_NUMBER.search(line[:_PLACE_WITHIN])
    if match is not None:
        return match["host"]
    return "" if label.isdecimal() else label


def _numbers(line: str, label: str) -> Iterable[tuple[WriterMark, int]]:
    if "ank" in line or "RANK" in line:
        place = _PLACE.search(line[:_PLACE_WITHIN])
        if place is not None:
            yield WriterMark.PLACE, int(place[1] or place[2])
    launcher = _LAUNCHERS.match(line)
    if launcher is not None and launcher["local"] is not None:
        yield WriterMark.LOCAL, int(launcher["local"])
    host = _HOST_AND_NUMBER.search(line[:_PLACE_WITHIN]) if ":" in line else None
    if host is not None:
        yield WriterMark.HOST, int(host["rank"])
    if label.isdecimal():
        yield WriterMark.TASK, int(label)
