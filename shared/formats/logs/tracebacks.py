"""Puts Python's tracebacks together again where several ranks write into one file, and finds what each ended in."""

import re
from collections.abc import Iterator, Sequence

from shared.formats.logs.writers import writer_of

HINT = "Traceback (most recent call last):"
_LONGEST = 4000
"""Lines from a traceback's first to its last, those of other ranks in between included."""

# RuntimeError: no such shard        torch.distributed.DistBackendError: NCCL error in: …        KeyboardInterrupt
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200})(?:: (?P<message>.*))?")


def find_exceptions(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield where each traceback ends: the line's index, and the type and message of the exception."""
    begun: dict[str, int] = {}
    for number, line in enumerate(lines):
        writer = writer_of(line)
        if writer.body.endswith(HINT):
            begun[writer.mark] = number
        elif writer.mark in begun and writer.body and not writer.body.startswith((" ", "\t")):
            match = _EXCEPTION.fullmatch(writer.body)
            if match is not None and number - begun[writer.mark] <= _LONGEST:
                yield number, {name: value for name, value in match.groupdict().items() if value is not None}
            del begun[writer.mark]
