"""What no row knows, of one log: waits, what an engineer would underline, and where who tells nothing else stops."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shared.formats.logs.general_voice import seconds_waited, waits_said_again
from shared.formats.logs.last_words import last_word
from shared.formats.logs.underlined import (
    SHOWN,
    goes_on_in,
    shown,
    source_lines,
    troubles,
    underlined,
    with_what_belongs,
)
from shared.formats.logs.writers import name_of_writer, process_of_line, rank_of_line
from shared.wire.log_events import EventKind

MOST_LAST = 1000
"""Of a log, these are looked through, and as many of those that hold a hint."""
_END = 10
_TELL_NOTHING = frozenset({EventKind.INTERFACE, EventKind.VERSION, EventKind.DUMP_SIGNAL, EventKind.GIL})

Found = tuple[int, EventKind, str, dict[str, str]]
"""A line's number, its kind, the line, and what was parsed from it."""


class ReadLog(NamedTuple):
    """One log, of each line what it says, and what stood before it."""

    lines: Sequence[str]
    heads: Sequence[str]
    labels: Sequence[str]
    telling: Sequence[int]
    """The numbers of lines that hold a hint."""
    owned: bool
    """Is it the file of one rank? He is who calls himself nothing."""

    def headed(self) -> frozenset[int]:
        """The lines before which stood more than before most: a time, where others have none."""
        return frozenset(number for number, head in enumerate(self.heads) if head.strip(" \t>|"))

    def writer(self, number: int) -> str:
        """Equal for the lines of one process, and for all that do not say whose they are."""
        line = self.lines[number]
        return self.labels[number] + str(process_of_line(line) or name_of_writer(line) or rank_of_line(line))


def with_voices(found: Sequence[Found], log: ReadLog) -> list[Found]:
    """Add them to what rows have found."""
    found = _with_waits(found, log)
    told = {number for number, kind, *_ in found if kind not in _TELL_NOTHING}
    told |= {n + 1 for n in told if n + 1 < len(log.lines) and goes_on_in(log.lines[n], log.lines[n + 1])}
    looked = {*log.telling[:MOST_LAST], *range(max(0, len(log.lines) - MOST_LAST), len(log.lines))}
    numbers = [number for number in sorted(looked | told) if any(map(str.isalpha, log.lines[number]))]
    writers = {number: log.writer(number) for number in numbers}
    headed = log.headed()
    found = [_with_its_block(each, log, writers, headed) if each[0] in looked else each for each in found]
    best = underlined(log.lines, [n for n in numbers if n not in told], writers, headed)
    for block in best:
        kind = EventKind.SAYS_WAIT if troubles(log.lines[block[0]]).keys() == {"waits"} else EventKind.SAYS_ERROR
        found.append((block[0], kind, _together(log, block), {}))
    told |= {number for block in best for number in block}
    code = source_lines(log.lines, numbers)
    return found + _last_words(told, [number for number in numbers if number not in code], writers, log)


def _with_waits(found: Sequence[Found], log: ReadLog) -> list[Found]:
    again = waits_said_again([head + line for head, line in zip(log.heads, log.lines, strict=True)])
    told = ((number, seconds_waited(log.lines[number])) for number in log.telling)
    said = {
        number: (number, EventKind.SAYS_WAIT, log.lines[number], {"waited_seconds": f"{seconds:g}"})
        for number, seconds in (*again, *told)
        if seconds is not None
    }
    found = [_with_duration(each, said) for each in found]
    return found + [said[number] for number in said.keys() - {each[0] for each in found}]


def _with_duration(found: Found, said: Mapping[int, Found]) -> Found:
    """Return a wait that a row of a site found with how long it was, where the line says so and the row does not."""
    number, kind, line, fields = found
    if kind is not EventKind.SAYS_WAIT or number not in said or any(name.startswith("waited_") for name in fields):
        return found
    return number, kind, line, {**said[number][3], **fields}


def _with_its_block(found: Found, log: ReadLog, writers: Mapping[int, str], headed: frozenset[int]) -> Found:
    """Of an exception what stands below it, too: its message may have many lines."""
    number, kind, _, fields = found
    if kind is not EventKind.EXCEPTION:
        return found
    return number, kind, _together(log, with_what_belongs(log.lines, number, writers, headed)), fields


def _last_words(told: set[int], numbers: Sequence[int], writers: Mapping[int, str], log: ReadLog) -> list[Found]:
    """Return where those stop who tell nothing else, of a log that tells something those with a rank; and its end."""
    mine = [number for number in numbers if not (log.owned and name_of_writer(log.lines[number]))]
    own: dict[str, list[int]] = defaultdict(list)
    for number in numbers if told else mine:
        if number in told or not told or rank_of_line(log.lines[number]) is not None:
            own["" if log.owned else writers[number]].append(number)
    silent = [of_one for of_one in own.values() if told.isdisjoint(of_one)]
    end = [[number for number in mine[-_END:] if number not in told]] if mine and mine[-1] not in told else []
    stops = sorted({last_word(log.lines, of_one) for of_one in (*silent, *end)})
    return [(stop[0], EventKind.LAST_LINE, _together(log, stop), {}) for stop in stops]


def _together(log: ReadLog, block: Sequence[int]) -> str:
    each = [shown(log.lines[number], SHOWN // len(block)) for number in block]
    return " / ".join(line.strip() for line in each) if len(each) > 1 else each[0]
