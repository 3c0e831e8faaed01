"""Reads what people write together from stacks of many ranks: each place once, with the ranks that are there.

A heading names ranks and nothing else. `Rank 0 worker (one of 8):` is another process, whose stack is of no rank.
"""

import re
from itertools import islice
from typing import NamedTuple

from shared.formats.stack_dumps import parse_pyspy_text
from shared.rank_sets import MOST_RANKS
from shared.wire.stacks import Stacks

#     all_reduce (torch/distributed/distributed_c10d.py:3252)   <- here        without the line of its thread, or indent
_FRAME = re.compile(r"\s*(?P<name>[\w.<>]{1,300}) {1,40}\((?P<place>[^\s()]{1,500}\.(?:py|so|cpp|cc)(?::\d{1,9})?)\)")
# **Rank 0 (in the loader):**        Ranks 0-2,5: barrier (torch/distributed/distributed_c10d.py:5030)        DP0,3: …
_HEAD = re.compile(
    r"[\s#*=>-]{0,12}(?P<of>[Gg]lobal ranks?|[Rr]anks?|RANKS?|DP|TP)[ _#]?"
    r"(?P<ranks>\d{1,7}(?:(?: ?[,&] ?| ?- ?)\d{1,7}){0,500})"
    r"(?: \([^()\n]{0,100}\))?:[*= ]{0,6}(?P<rest>.*)"
)
_OTHER_HEAD = re.compile(r"[\s#*=>-]{0,12}\S.{0,150}:[*= ]{0,6}$")
_LOOKED_AT = 200


class RanksTogether(NamedTuple):
    """Ranks at one place; none where the heading names another process."""

    ranks: tuple[int, ...]
    stacks: Stacks


def is_grouped(text: str) -> bool:
    """Are most lines frames, and is there a heading that names ranks?"""
    lines = list(islice((line for line in text.split("\n") if line.strip()), _LOOKED_AT))
    heads = [match for line in lines if (match := _HEAD.match(line[:2000])) is not None]
    frames = sum(_FRAME.match(line[:2000]) is not None for line in (*lines, *(head["rest"] for head in heads)))
    others = sum(_OTHER_HEAD.match(line[:2000]) is not None and _HEAD.match(line[:2000]) is None for line in lines)
    return bool(heads) and frames > 1 and frames + others >= len(lines) - len(heads)


def parse_grouped_stacks(text: str) -> list[RanksTogether]:
    """Read all groups, in the order of the text. Raises UnreadableDump where one has no frame."""
    groups: list[tuple[tuple[int, ...], list[str]]] = []
    kinds: set[str] = set()
    for line in text.split("\n"):
        head = _HEAD.match(line[:2000])
        if head is not None:
            kinds.add(head["of"].lower().removeprefix("global ").rstrip("s"))
            groups.append((_numbers(head["ranks"]), [head["rest"]]))
        elif _FRAME.match(line[:2000]) is None and _OTHER_HEAD.match(line[:2000]) is not None:
            groups.append(((), []))
        elif groups:
            groups[-1][1].append(line)
    named = [rank for ranks, _ in groups for rank in ranks]
    sure = len(kinds) == 1 and len(set(named)) == len(named)  # else numbers of two kinds, or a log of what ranks did
    found = [(ranks if sure else (), frames) for ranks, lines in groups if (frames := _frames(lines))]
    return [RanksTogether(ranks, parse_pyspy_text(frames)) for ranks, frames in found]


def _frames(lines: list[str]) -> str:
    matches = [match for line in lines if (match := _FRAME.match(line[:2000])) is not None]
    return "\n".join(f"    {match['name']} ({match['place']})" for match in matches)


def _numbers(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in re.split(r"[,&]", text):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), MOST_RANKS - 1) + 1))
    return tuple(sorted(found))
