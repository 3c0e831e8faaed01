"""The general voice: anybody's line that tells a duration beside a word of waiting, which no row knows.

It is a weak statement: shown with who said it, and nobody is accused by it. A word and a duration must stand near each
other, the duration must be one that a healthy step does not take, and a plan (`retrying in
30 s`, `timeout set to 600 s`) is none.
"""

import re

HINTS = (
    *("imed out", "imeout", "stuck", "o progress", "aiting", "aited", "respond", "o response", "nresponsive"),
    *("eartbeat", "hung", "talled", "No available"),
)
"""One of these is in every such line: they are looked for in logs of any length."""
_WORD = (
    r"timed[ -]out|time[d-]?out (?:after|exceeded|reached|\()|stuck|no progress|wait(?:ing|ed)(?! time)|"
    r"not respond\w*|no response|unresponsive|missed heartbeat|heartbeat timeout|hung|stalled|"
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
