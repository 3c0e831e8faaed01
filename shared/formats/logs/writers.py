"""Who wrote a line: the marks that PyTorch and launchers put before it, and the header of NCCL."""

import re
from typing import NamedTuple

_CUT = re.compile(r"(?=\[rank\d{1,7}\]:)")
# 12%|##  | 3/25 [00:09<01:08][rank0]:[E1121 09:10:11.123456789 ProcessGroupNCCL.cpp:655] …      [rank3]: ValueError: …
_RANK = re.compile(r"\[rank(\d{1,7})\]:")
# [default3]:Traceback (most recent call last):                                        torchrun --tee, local rank
# [1,3]<stderr>:Traceback (most recent call last):                                     mpirun --tag-output, job and rank
# (RayTrainWorker pid=615, ip=10.72.7.6) Traceback (most recent call last):
_LAUNCHERS = re.compile(
    r"(?:\[default\d{1,7}\]:|\[\d{1,7},(?P<rank>\d{1,7})\]<std(?:out|err)>: ?"
    r"|\([\w:.]{1,100} pid=\d{1,10}[^()]{0,60}\) )"
)
# [2026-11-21 09:10:11] node1:4242:4250 [3] transport/net_ib.cc:1296 NCCL WARN …         node1:4242:4250 [3] NCCL INFO …
_NCCL = re.compile(r"(?<![\w.-])(?P<host>[\w.-]{1,255}):(?P<pid>\d{1,10}):\d{1,10} \[\d{1,4}\] ")


class Writer(NamedTuple):
    """Whose line it is: lines with equal `mark` are of one process; `rank` is global, None where the mark is silent."""

    mark: str
    rank: int | None
    body: str
    """The line behind the marks."""


def cut_apart(line: str) -> list[str]:
    """Return the pieces of a line into which several ranks wrote, each with its rank's mark."""
    return [piece for piece in _CUT.split(line) if piece] if "[rank" in line else [line]


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
        return Writer("", None, line)
    return Writer(launcher[0], None if launcher["rank"] is None else int(launcher["rank"]), rest)


def process_of_line(line: str) -> dict[str, str]:
    """Return host and pid of the NCCL header of a line, as fields of an event; empty where it has none."""
    match = _NCCL.search(line) if "NCCL " in line else None
    return {} if match is None else {"writer_host": match["host"], "writer_pid": match["pid"]}
