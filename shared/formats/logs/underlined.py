"""What an engineer underlines in a log that he does not know: the few lines that tell most, by their words and place.

1. A line is worth what its words tell (`underlined.toml`): that somebody ended, failed, waits or is missed, who, how
   long. What is only set, planned, advised or counted is worth less, and so is a frame of a stack.
2. What is said again and again is worth less. A log ends where it hangs: what stands far from its end is, too.
3. Of the forms that are worth most a few are told, once for each who wrote one, with what stands right below.
"""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from shared.formats.logs.general_voice import form_of
from shared.packs import read_pack

MOST_FORMS = 5
_LEAST = 2.0
_LONGEST = 600
_MOST_OF_A_FORM = 64
_NEAR_END, _FARTHEST = 50, 4.0
"""Lines from the end that cost nothing yet, and what the farthest cost."""
_MOST_BELOW, _LOOKED_BELOW = 3, 8
_WRAPPED_FROM = 60
SHOWN, _SHOWN_BEFORE = 480, 60

_WORDS = tuple(
    (re.compile(row["pattern"]), row["worth"], row["says"], row.get("trouble", False))
    for row in read_pack(__file__, "underlined.toml")["words"]
)
# 2026-11-21 09:10:11 …        [rank3]: …        INFO …        E1121 09:10:11 …        trainer: …        begins another
_BEGINS = re.compile(
    r"\W{0,2}(?:\d{2,4}[-/:]\d\d[-/:]\d\d|[A-Z][a-z]{2} [A-Z ][\w ]|DEBUG|INFO|WARN|ERROR|FATAL|[EWIF]\d{4} )|\S+: "
    r"|\[\w"
)
#   File "/job/train.py", line 3, in step        [rank3]:   File "/job/train.py", line 3, in step
_PYTHON_FRAME = re.compile(r"(?:\W?\[?\w{1,20}\]?[:>] ?)?\s{0,12}File \".{1,400}\", line \d")
_INDENTED = re.compile(r"(?:\W?\[?\w{1,20}\]?[:>] ?)?(\s*)")
_MOST_SOURCE = 20


def worth_of(line: str) -> float:
    """1."""
    return float(sum(worth for pattern, worth, *_ in _WORDS if pattern.search(line[:_LONGEST])))


def troubles(line: str) -> dict[str, int]:
    """Return what a line says that is wrong, and where: `ended`, `error`, `failed`, `waits`, `amiss`."""
    found = ((says, pattern.search(line)) for pattern, _, says, trouble in _WORDS if trouble)
    return {says: match.start() for says, match in found if match is not None}


def underlined(
    lines: Sequence[str], numbers: Sequence[int], writers: Mapping[int, str], headed: Collection[int] = ()
) -> list[tuple[int, ...]]:
    """Return the lines that tell most, of those of these numbers, each with what belongs to it.

    `headed`: those before which stood a time, or the like.
    """
    forms: dict[str, list[int]] = defaultdict(list)
    for number in sorted({*numbers} - source_lines(lines, numbers)):
        forms[form_of(lines[number])].append(number)
    worth = {form: tells for form, of_form in forms.items() if (tells := worth_of(lines[of_form[0]])) >= _LEAST}
    first = next(iter(worth), None)
    ranked = sorted(
        worth, key=lambda form: (form == first) + worth[form] - _cost(forms[form], len(lines)), reverse=True
    )
    told: dict[int, tuple[int, ...]] = {}
    left = MOST_FORMS
    for form in ranked:
        known = {number for block in told.values() for number in block}
        of_each = {writers[number]: number for number in reversed(forms[form])}.values()
        new = [number for number in of_each if number not in known][:_MOST_OF_A_FORM]
        told |= {number: with_what_belongs(lines, number, writers, headed) for number in new}
        left -= bool(new)
        if left == 0:
            break
    return sorted(told.values())


def _cost(of_form: Sequence[int], lines: int) -> float:
    """2."""
    return math.log2(len(of_form)) / 2 + min(_FARTHEST, math.log2(1 + (lines - of_form[-1]) / _NEAR_END) * 0.75)


def with_what_belongs(
    lines: Sequence[str], number: int, writers: Mapping[int, str], headed: Collection[int] = ()
) -> tuple[int, ...]:
    """3. A line and those right below it that tell more of the same: who it was, or what stands below its heading."""
    block = [number]
    for below in range(number + 1, min(number + 1 + _LOOKED_BELOW, len(lines))):
        line, above = lines[below], lines[block[-1]].rstrip()
        if not line.strip():
            continue
        heads = above.endswith(":")
        follows = not line[0].isalnum() or goes_on_in(above, line)
        another = below in headed or _BEGINS.match(line) is not None or form_of(line) == form_of(lines[number])
        same = writers.get(below) == writers[number] and (heads or (follows and not another))
        if len(block) > _MOST_BELOW or not same:
            break
        block += [below] if heads or worth_of(line) > 0 else []
    return tuple(block)


def _indent(line: str) -> int:
    match = _INDENTED.match(line)
    return 0 if match is None else len(match[1])


def goes_on_in(above: str, line: str) -> bool:
    """Did a terminal break a line within its words?"""
    return len(above) >= _WRAPPED_FROM and line[:1].islower()


def source_lines(lines: Sequence[str], numbers: Iterable[int]) -> set[int]:
    """Return which of these lines are source code that a Python traceback quotes below its frames."""
    found, within = set(), -1
    for number in numbers:
        if _PYTHON_FRAME.match(lines[number]):
            within = number
        elif 0 <= within >= number - _MOST_SOURCE and _indent(lines[number]) > _indent(lines[within]):
            found.add(number)
        else:
            within = -1
    return found


def shown(line: str, most: int = SHOWN) -> str:
    """Return a line, or what there is of a long one from shortly before its first word of trouble."""
    at = 0 if len(line) <= most else max(0, min(troubles(line).values(), default=0) - _SHOWN_BEFORE)
    return line[at : at + most]
