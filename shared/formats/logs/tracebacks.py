"""Puts Python's tracebacks together again where several ranks write into one file, and finds what each ended in."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from shared.formats.logs.fixed_strings import finder_of
from shared.formats.logs.writers import Writer, writer_of

HINT = "Traceback (most recent call last):"
MARKED_HINT = "Error: "
FRAME_HINT = '", line '
_opens = finder_of((HINT, FRAME_HINT, MARKED_HINT, "Exception: "))
"""One of these is in the first line of whatever is found here, however little of a traceback is left."""

_LONGEST = 4000
"""Lines from a traceback's first to its last, those of other ranks in between included."""

# RuntimeError: no such shard        torch.distributed.DistBackendError: NCCL error in: …        KeyboardInterrupt
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200})(?:: (?P<message>.*))?")

#   File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 4627, in barrier
_FRAME = re.compile(
    r'\s{1,12}File "(?:[^"\n]{0,400}torch/distributed/distributed_c10d\.py", line \d{1,7}, in (?P<call>[a-z]\w{2,60})$'
    r'|(?P<file>(?!<frozen )[^"\n]{1,500})", line (?P<line>\d{1,7}), in (?P<function>\S{1,200}))'
)
_OF_LIBRARY = re.compile(r"(?:site|dist)-packages/|/lib/python3")


class Ending(NamedTuple):
    """Where a traceback ends: the line, and the exception's type and message, with the collective that raised it.

    `fields` hold `raised_file`, `raised_line` and `raised_function` where a frame is not a library's.
    """

    number: int
    fields: dict[str, str]
    call: str | None
    """The function of torch.distributed that was called, if a frame shows it."""
    framed: bool
    """Was anything of the traceback there before it?"""


def find_exceptions(lines: Sequence[str], labels: Sequence[str]) -> Iterator[Ending]:
    """Yield where each traceback ends.

    Where its head was cut away, frames are enough, or a rank's mark of PyTorch, before what has an error's form.
    `labels`: what the launcher put before each line.
    """
    begun: dict[tuple[str, str], _Begun] = {}
    last = 0
    for number, (line, label) in enumerate(zip(lines, labels, strict=True)):
        if _opens(line):
            last = number
        elif not begun:
            continue
        elif number - last > _LONGEST:
            begun.clear()
            continue
        writer = writer_of(line)
        mark = (label, writer.mark)
        if writer.body.endswith(HINT):
            begun[mark] = _Begun(number, True, None)
        elif writer.body.startswith((" ", "\t")):
            frame = _FRAME.match(writer.body) if FRAME_HINT in writer.body else None
            if frame is not None:
                known = begun.setdefault(mark, _Begun(number, False, None))
                if known.call is None and frame["call"] is not None:
                    begun[mark] = known._replace(call=frame["call"])
                elif frame["file"] is not None and _OF_LIBRARY.search(frame["file"]) is None:
                    raised = {f"raised_{name}": frame[name] for name in ("file", "line", "function")}
                    begun[mark] = known._replace(raised=raised)
        elif writer.body:
            ending = _ending(number, writer, begun.pop(mark, None))
            if ending is not None:
                yield ending


class _Begun(NamedTuple):
    number: int
    whole: bool
    call: str | None
    raised: Mapping[str, str] = MappingProxyType({})
    """The innermost frame of the user's."""


def _ending(number: int, writer: Writer, begun: _Begun | None) -> Ending | None:
    match = _EXCEPTION.fullmatch(writer.body)
    if match is None or (begun is not None and number - begun.number > _LONGEST):
        return None
    whole = begun is not None and begun.whole
    if not whole and not (_is_error(match) and (begun is not None or writer.rank is not None)):
        return None
    fields = {name: value for name, value in match.groupdict().items() if value is not None}
    fields |= {} if begun is None else begun.raised
    return Ending(number, fields, None if begun is None else begun.call, begun is not None)


def _is_error(match: re.Match[str]) -> bool:
    return match["message"] is not None and match["type"].endswith(("Error", "Exception"))
