"""Which rank a bare file belongs to. A wrong guess would accuse an innocent rank, so a doubtful number is none."""

import re
from collections.abc import Collection, Mapping

from shared.formats.recorder.dump import rank_of_file_name
from shared.rank_sets import MOST_RANKS
from shared.wire.stacks import Stacks

_SUFFIXES = re.compile(r"(?:\.(?:json|txt|log|out|err|pkl|pickle|pyspy|py-spy|stacks?|traces?|dump))+$", re.IGNORECASE)
# stacks_rank_3.json        rank3.log        node02-rank-5-stderr.txt
# node04        gpu-host7, the name of a machine: no separator before its number
_OF_A_MACHINE = re.compile(
    r"(?i)(?<![a-z])(?:(?:node|host|nid|gpu)[-_]?\d+|(?!rank|trace|stack|dump|py-?spy|proc|out|log|r\d)[a-z]+\d+)$"
)
_NAMED = re.compile(r"(?i)(?<![a-z])rank[-_. ]?(\d{1,7})(?!\d)")


def rank_of_dump(path: str) -> int | None:
    """Return the trailing number of a recorder dump's name, which is how PyTorch names them."""
    return _possible(rank_of_file_name(_stem(path)))


def rank_of_stacks(path: str, stacks: Stacks, rank_by_pid: Mapping[int, int]) -> int | None:
    """Return the rank that a stack dump is of; `rank_by_pid` holds the processes that snapshots know."""
    named = _named(path)
    if named is not None:
        return named
    if stacks.pid is not None and stacks.pid in rank_by_pid:
        return rank_by_pid[stacks.pid]
    if _OF_A_MACHINE.search(_stem(path)):
        return None
    trailing = rank_of_file_name(_stem(path))
    processes = {stacks.pid, *(thread.tid for thread in stacks.threads)}
    return None if trailing in processes else _possible(trailing)


def rank_of_log(path: str, known: Collection[int]) -> int | None:
    """Return the rank whose log it is, where its name says `rank` or ends with a rank `known` from other files."""
    named = _named(path)
    if named is not None:
        return named
    trailing = rank_of_file_name(_stem(path))
    return trailing if trailing in known else None


def _stem(path: str) -> str:
    """Return the file's own name without directories, archive and suffixes."""
    return _SUFFIXES.sub("", re.split(r"[/!]", path)[-1])


def _named(path: str) -> int | None:
    found = _NAMED.findall(_stem(path))
    return _possible(int(found[-1])) if found else None


def _possible(rank: int | None) -> int | None:
    return rank if rank is not None and rank < MOST_RANKS else None
