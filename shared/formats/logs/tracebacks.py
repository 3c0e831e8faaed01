"""Puts Python's tracebacks together again where several ranks write into one file, and finds what each ended in."""

import re
from collections.abc import Iterator, Sequence

from shared.formats.logs.writers import Writer, writer_of

HINT = "Traceback (most recent call last):"
MARKED_HINT = "Error: "
_LONGEST = 4000
"""Lines from a traceback's first to its last, those of other ranks in between included."""

# RuntimeError: no such shard        torch.distributed.DistBackendError: NCCL error in: …        KeyboardInterrupt
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200})(?:: (?P<message>.*))?")


def find_exceptions(lines: Sequence[str], labels: Sequence[str]) -> Iterator[tuple[int, dict[str, str], bool]]:
    """Yield where each traceback ends: the line's index, type and message of the exception, and is that all there is.

    A line that PyTorch marks with its rank and that has an error's form ends a traceback whose rest was cut away.
    `labels`: what the launcher put before each line.
    """
    begun: dict[tuple[str, str], int] = {}
    for number, (line, label) in enumerate(zip(lines, labels, strict=True)):
        writer = writer_of(line)
        mark = (label, writer.mark)
        if writer.body.endswith(HINT):
            begun[mark] = number
        elif writer.body and not writer.body.startswith((" ", "\t")):
            start = begun.pop(mark, None)
            match = _EXCEPTION.fullmatch(writer.body)
            if match is None or (start is None and not _is_error(writer, match)):
                continue
            if start is None or number - start <= _LONGEST:
                yield number, {k: v for k, v in match.groupdict().items() if v is not None}, start is None


def _is_error(writer: Writer, match: re.Match[str]) -> bool:
    return writer.rank is not None and match["message"] is not None and match["type"].endswith(("Error", "Exception"))
