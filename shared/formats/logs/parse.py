"""Finds log lines that matter for a hang: timeouts, mismatches, lost connections, exceptions.

Logs are dirty: colours, several processes in one line, launchers' prefixes, lines repeated or cut. A line is
first cleaned and, where lines of several ranks were glued together, cut apart at the ranks' marks. The
rank that wrote a line is known by its `[rankN]:` mark (PyTorch 2.2 on), else by the owner of the file, else by
the marks that are known to name ranks in this job.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise

from shared.formats.logs import general_voice, horovod_stalls
from shared.formats.logs.container_lines import printed
from shared.formats.logs.fixed_strings import finder_of
from shared.formats.logs.rows_all import (
    GROUP,
    GROUP_HINT,
    MATCHERS,
    canonical_op,
)
from shared.formats.logs.timestamps import moment_of, stamp_of
from shared.formats.logs.tracebacks import HINT as TRACEBACK_HINT
from shared.formats.logs.tracebacks import MARKED_HINT, find_exceptions
from shared.formats.logs.voices import MOST_LAST, Found, ReadLog, with_voices
from shared.formats.logs.writers import (
    NO_NAMING,
    Naming,
    cut_apart,
    labeller_of,
    name_of_writer,
    process_of_line,
    rank_of_line,
)
from shared.packs import LineRow
from shared.redaction.redact import redact
from shared.wire.log_events import EventKind, LogEvent

MOST_EVENTS = 1000
LONGEST_LINE = 4000
_LONGEST_TEXT = 500
_MOST_WRAPPED = 3
_MOST_PASTED = 2000
"""Lines: what people copy from a terminal is not longer."""
_BROKEN_FROM = 60
"""Characters: few terminals are narrower."""
_OF_STALLS = (horovod_stalls.HINT, *horovod_stalls.HINTS_OF_MISSING)
_OF_THEIR_OWN = (TRACEBACK_HINT, MARKED_HINT, *_OF_STALLS)
HINTS = (*_OF_THEIR_OWN, *dict.fromkeys(matcher.hint for matcher in MATCHERS), *general_voice.HINTS)
"""One of these is in every line that tells anything, or in the first of its lines."""
_LONGEST_HINT = max(map(len, HINTS))

_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
# … [repeated 15x across cluster]
_REPEATED = re.compile(r"\s?\[repeated \d{1,9}x across cluster\]")
# tests/unit/test_kernel.py::test_lines[Out of memory: Killed process 4242 (python3)] PASSED [ 15%]        a quotation
_OF_A_TEST = re.compile(r"(\S{1,300}::\w{1,200})\[.*\](?= (?:PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b)")


def clean_line(line: str) -> str:
    """Return a line without colours, control characters, notes of Ray, containers and tests, cut to 4000 characters."""
    line = _OF_A_TEST.sub(r"\1", printed(line)) if "::" in line and "] " in line else printed(line)
    if line.isprintable() and "[repeated " not in line:
        return line[:LONGEST_LINE].rstrip()
    return _REPEATED.sub("", _ESCAPES.sub("", line[: 2 * LONGEST_LINE]))[:LONGEST_LINE].rstrip()


def find_events(
    lines: Iterable[str],
    *,
    path: str,
    rank: int | None,
    written_at: float | None = None,
    most: int = MOST_EVENTS,
    naming: Naming = NO_NAMING,
    voices: bool = False,
) -> tuple[LogEvent, ...]:
    """Return the last events of some lines, oldest first.

    `rank` is whose file it is, None where several ranks write into it; a line's own mark goes before it.
    `written_at`: when the file was last written to, in Unix seconds, if it was written on this machine.
    `voices`: are waits and errors in words that no row knows wanted, too?
    """
    lines = list(lines)
    if not may_tell("\n".join(lines)):
        if not voices:
            return ()
        lines = ["" for _ in lines[:-MOST_LAST]] + lines[-MOST_LAST:]
    cleaned = [clean_line(line) for line in lines]
    labelled = map(labeller_of(cleaned), cleaned)
    cut = [(each.label, each.head, piece) for each in labelled for piece in cut_apart(each.line)]
    labels, heads, pieces = ([each[part] for each in cut] for part in range(3))
    pieces = _unbroken(pieces) if voices else pieces
    telling = [number for number, piece in enumerate(pieces) if may_tell(piece)]
    text = "\n".join([pieces[number] for number in telling])
    rows = [row for row in MATCHERS if row.hint in text]
    found = [*_matched(pieces, telling, rows), *_stalls(pieces, telling)]
    if MARKED_HINT in text or TRACEBACK_HINT in text:
        found = list(_with_exceptions(found, pieces, labels))
    if voices:
        found = with_voices(found, ReadLog(pieces, heads, labels, telling, owned=rank is not None))
    found.sort(key=lambda event: event[0])
    events = (
        _event(each, labels[each[0]], heads[each[0]], path=path, rank=rank, naming=naming) for each in found[-most:]
    )
    return tuple(events if written_at is None else (_dated(event, written_at) for event in events))


@cache
def _finder() -> Callable[[str], bool]:
    return finder_of(HINTS)


def may_tell(text: str) -> bool:
    """Is there any hint of an event? Colours may hide one; most logs have neither."""
    return _finder()(text) or "\x1b" in text


def _unbroken(lines: list[str]) -> list[str]:
    """Put together what a terminal broke within the words by which a line is known; the second line is empty then."""
    for at, (line, below) in enumerate(pairwise(lines if len(lines) <= _MOST_PASTED else ())):
        ends = line[1 - _LONGEST_HINT :], below[: _LONGEST_HINT - 1]
        if len(line) < _BROKEN_FROM or not may_tell("".join(ends)):
            continue
        if any(hint in "".join(ends) and not any(hint in end for end in ends) for hint in HINTS):
            lines[at : at + 2] = line + below, ""
    return lines


def _with_exceptions(found: list[Found], pieces: Sequence[str], labels: Sequence[str]) -> Iterator[Found]:
    """Add the tracebacks' ends. Other events of such a line get the operation from the traceback's frames."""
    endings = {ending.number: ending for ending in find_exceptions(pieces, labels)}
    for number, kind, line, fields in found:
        call = endings[number].call if number in endings else None
        yield number, kind, line, fields if call is None else {"op": call} | fields
    known = {number for number, *_ in found}
    for number, ending in endings.items():
        if ending.framed or number not in known:
            yield number, EventKind.EXCEPTION, pieces[number], ending.fields


def _event(found: Found, label: str, head: str, *, path: str, rank: int | None, naming: Naming) -> LogEvent:
    number, kind, line, fields = found
    own = rank_of_line(line)
    if own is None:
        own = naming.rank_of(line, label) if rank is None else rank
    host = {} if label == "" or label.isdecimal() else {"writer" if "/" in label else "writer_host": label}
    host |= name_of_writer(line) if own is None else {}
    return LogEvent(
        kind=kind,
        rank=own,
        text=redact(head + line)[:_LONGEST_TEXT],
        fields={name: redact(value)[:300] for name, value in fields.items()} | host | process_of_line(line),
        path=path,
        number=number,
        stamp=stamp_of(line) or stamp_of(head),
    )


def _dated(event: LogEvent, written_at: float) -> LogEvent:
    at = moment_of(event.stamp, written_at=written_at) if event.stamp else None
    return event if at is None else event.model_copy(update={"at": at})


def _matched(lines: Sequence[str], telling: Iterable[int], rows: Sequence[LineRow[EventKind]]) -> Iterator[Found]:
    for number in telling if rows else ():
        line = lines[number]
        for row in rows:
            match = _search(row.pattern, lines, number) if row.hint in line else None
            if match is not None:
                yield number, row.kind, line, _fields(match) | _group(line)


def _group(line: str) -> dict[str, str]:
    match = GROUP.search(line) if GROUP_HINT in line else None
    return {} if match is None else {name: value for name, value in match.groupdict().items() if value}


def _search(pattern: re.Pattern[str], lines: Sequence[str], number: int) -> re.Match[str] | None:
    """Search a line, else with those that it may have been wrapped into; a paste may have doubled all ends of lines.

    Its hint may stand on the second of two.
    """
    wrapped = [line for line in lines[number : number + 2 * _MOST_WRAPPED - 1] if line][:_MOST_WRAPPED]
    alone = pattern.search(wrapped[0]) or pattern.search("\n".join(wrapped)) or pattern.search("".join(wrapped[:2]))
    above = lines[number - 1] if number and alone is None else ""
    if len(above) < _BROKEN_FROM or pattern.search(above):
        return alone
    return pattern.search(above + wrapped[0])


def _fields(match: re.Match[str]) -> dict[str, str]:
    fields = {name: value for name, value in match.groupdict().items() if value is not None}
    return fields | {name: canonical_op(fields[name]) for name in ("op", "other_op") if name in fields}


def _stalls(lines: Sequence[str], telling: Iterable[int]) -> Iterator[Found]:
    """Find what Horovod's stall check prints: of each operation who has come, or who has not."""
    for number in telling:
        told = any(hint in lines[number] for hint in _OF_STALLS)
        fields = (horovod_stalls.missing(lines, number) or horovod_stalls.ready(lines[number])) if told else None
        if fields is not None:
            yield number, EventKind.WATCHDOG_TIMEOUT, lines[number], fields
