"""The general voice: anybody's line of a long wait, or of an error, which no row knows.

It is a weak statement: shown with who said it, and nobody is accused by it.

1. A word of waiting and a duration stand near each other. The duration must be one that a healthy step does not take,
   and a plan (`retrying in 30 s`, `timeout set to 600 s`) is none.
2. That he waits is said again and again, up to the log's end: how long it was, the times before the lines tell.
3. Of a log in which nothing else is known: its first errors, by what loggers and runtimes put before or into them.
4. Of whoever tells nothing else: the line at which he stopped, or a trouble right above it. A log ends where it hangs.
"""

import re
from collections.abc import Iterator, Sequence

HINTS = (
    *("imed out", "imeout", "stuck", "o progress", "aiting", "aited", "respond", "o response", "nresponsive"),
    *("eartbeat", "hung", "talled", "No available"),
)
"""One of these is in every such line: they are looked for in logs of any length."""
_WORD = (
    r"timed[ -]out|time[d-]?out (?:after|exceeded|reached|\()|stuck|no progress|wait(?:ing|ed)(?! time)|"
    r"not respond\w*|no response|unresponsive|heartbeat timeout|hung|stalled|"
    r"(?:no|missed|missing|lost|lack of|without) (?:\d{1,6} |any )?heartbeats?|"
    r"no available (?:[\w-]+ ){1,6}(?:in|within|for|after)"
)
_LONG = (
    r"(?<![\w.])(?P<%s>\d{1,9}(?:\.\d{1,6})?) ?(?P<%s>ms|milliseconds?|s|secs?|seconds?|mins?|minutes?|hours?|hrs?|h)\b"
)
# The client socket has timed out after 60s while trying to connect to 10.0.0.1:1234
# Watchdog timeout (self.watchdog_timeout=300)
_SAID = re.compile(
    rf"\b(?:{_WORD})[^\n]{{0,80}}?(?:{_LONG % ('long', 'unit')}|timeout=(?P<plain>\d{{1,9}})\b)"
    rf"|{_LONG % ('long_before', 'unit_before')}[^\n]{{0,60}}?\b(?:{_WORD})",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"retry|\bwill (?:be )?wait|set to|default|interval|configured|increase|up to|sleeping|at most|--|took \d|"
    r"per (?:step|iteration)|\w=\w+,.*\w=\w+,",
    re.IGNORECASE,
)
_LEAST_SECONDS = 10.0
_UNITS = {"ms": 0.001, "milli": 0.001, "m": 60.0, "h": 3600.0, "s": 1.0}
"""By what a unit begins with, the first that fits."""


def seconds_waited(line: str) -> float | None:
    """Return how long a line says that somebody waited; None where it says nothing of the kind."""
    if not any(hint in line for hint in HINTS):
        return None
    match = _SAID.search(line[:2000])
    if match is None or _PLAN.search(line[max(0, match.start() - 60) : match.end() + 20]):
        return None
    unit = (match["unit"] or match["unit_before"] or "s").lower()
    of_unit = next(seconds for begins, seconds in _UNITS.items() if unit.startswith(begins))
    seconds = of_unit * float(match["long"] or match["long_before"] or match["plain"])
    return seconds if seconds >= _LEAST_SECONDS else None


# DEBUG 05-16 13:12:26 [core_client.py:425] Waiting for 1 core engine proc(s) to start: {0}       vLLM
# I1121 09:12:11.5 4242 mesh.cc:208] Waiting to connect to 10.0.0.7:8477
_STILL = re.compile(r"\b[Ww]aiting (?:for|on|to)\b")
_CLOCK = re.compile(r"(?<![\d:])(\d\d):(\d\d):(\d\d)(?![\d:])")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(?:[,-]\d+)*")
_DAY = 86400
_LAST_LINES = 30
"""Of a log: what was said again before them, and no more, is over."""
_MOST_ABOVE = 20


def form_of(line: str) -> str:
    """Return a line's beginning without its numbers: alike of what is said again."""
    return _NUMBERS.sub("N", line[:500])


def waits_said_again(lines: Sequence[str]) -> Iterator[tuple[int, float]]:
    """2. Yield the number of the last line of each such wait, and how many seconds the first was before it."""
    first: dict[str, int] = {}
    last: dict[str, tuple[int, int]] = {}
    for number, line in enumerate(lines):
        clock = _clock_at(lines, number) if "aiting " in line and _STILL.search(line[:500]) else None
        if clock is not None:
            hours, minutes, seconds = map(int, clock.groups())
            form, now = form_of(line), 3600 * hours + 60 * minutes + seconds
            last[form] = number, now - first.setdefault(form, now)
    for number, waited in last.values():
        if len(lines) - number <= _LAST_LINES and waited % _DAY >= _LEAST_SECONDS:
            yield number, float(waited % _DAY)


def _clock_at(lines: Sequence[str], number: int) -> re.Match[str] | None:
    """The time that a line has, or one of those right above it."""
    above = (lines[each] for each in range(number, max(-1, number - _MOST_ABOVE), -1))
    return next((match for line in above if (match := _CLOCK.search(line[:200])) is not None), None)
