"""Frame lists for people: outermost first as Python prints them, the outer ones left out, the innermost marked."""

from collections.abc import Sequence
from itertools import pairwise

from collector.show.text.layout import Line, Span, Style, columns_of, pad
from collector.show.text.printable import display_width, is_installed, printable, shortened
from shared.answer.diagnosis import Place
from shared.plural import counted

MOST_FRAMES = 8
"""Of one list. The innermost ones show where a rank is; the outer ones are alike everywhere."""

_LONGEST_FUNCTION = 44


def is_library(place: Place) -> bool:
    """Is it anything but a line of the user's own code: installed, frozen, built in or native?"""
    return is_installed(place.file) or not place.file.endswith(".py")


def place_text(place: Place) -> str:
    """Return `function (file:line)`, on one line."""
    where = f"{shortened(place.file)}:{place.line}" if place.line else shortened(place.file)
    function = printable(place.function, most=120)
    return f"{function} ({where})" if where else function


def frame_lines(
    frames: Sequence[Place], width: int, *, most: int = MOST_FRAMES, parts_at: int | None = None
) -> list[Line]:
    """Return `frames` (outermost first) as aligned lines, the innermost last and marked with an arrow.

    Of more than `most` the innermost are shown, and wherever they are the last one of the user's own code and the one
    at `parts_at`, where other ranks have gone another way.
    """
    shown = _shown(frames, most, parts_at)
    names = {at: printable(frames[at].function, most=_LONGEST_FUNCTION) for at in shown}
    column = max(columns_of([[name] for name in names.values()]), default=0)
    lines: list[Line] = []
    expected = 0
    for at in shown:
        if at > expected:
            what = "outer frame" if expected == 0 else "frame"
            lines.append((Span(f"  … {counted(at - expected, what)} not shown", Style.DIM),))
        lines.append(_frame(names[at], frames[at], column, width, innermost=at == len(frames) - 1))
        expected = at + 1
    return lines


def _shown(frames: Sequence[Place], most: int, parts_at: int | None) -> list[int]:
    innermost = range(max(0, len(frames) - most), len(frames))
    own = next((at for at in reversed(range(len(frames))) if not is_library(frames[at])), None)
    outer = sorted({at for at in (own, parts_at) if at is not None and at < innermost.start})
    shown = [*outer, *innermost[len(outer) :]]
    between = [at + 1 for at, following in pairwise([-1, *shown]) if following - at == 2]
    return sorted([*shown, *between])  # a line that says that one frame is not shown is as long as the frame


def _frame(name: str, frame: Place, column: int, width: int, *, innermost: bool) -> Line:
    mark = Span("→ ", Style.WARNING) if innermost else Span("  ")
    shown = Span(pad(name, column) + "  ", Style.BOLD if innermost else Style.PLAIN)
    number = f":{frame.line}" if frame.line else ""
    left = width - 2 - display_width(shown.text) - len(number)
    return (mark, shown, Span(shortened(frame.file, max(left, 12)) + number, Style.DIM))
