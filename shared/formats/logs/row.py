"""What a row of the tables of log lines is.

Above each pattern is a line that it must match, made up in the grammar of the program that prints it, with its
origin. A pattern is tried only on lines that hold its `hint`, which keeps a log without events nearly free.
No pattern can backtrack far: repetitions are bounded or end at a character of their own.
"""

import re
from typing import NamedTuple

from shared.wire.log_events import EventKind


class Matcher(NamedTuple):
    """One kind of line. Named groups become the event's fields; `op` is put into the recorder's spelling."""

    kind: EventKind
    hint: str
    pattern: re.Pattern[str]


def row(kind: EventKind, hint: str, pattern: str) -> Matcher:
    """Return one row of a table."""
    return Matcher(kind, hint, re.compile(pattern))
