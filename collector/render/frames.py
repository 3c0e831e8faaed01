"""Frame lists for people: outermost first as Python prints them, the outer ones left out, the innermost marked."""

from collections.abc import Sequence

from collector.render.layout import Line, Span, Style, columns_of, pad
from collector.render.printable import counted, display_width, printable, shortened
from shared.diagnosis import Place

MOST_FRAMES = 8
"""Of one list. The innermost ones tell where a rank is; the outer ones are alike everywhere."""

_LONGEST_FUNCTION = 44


def place_text(place: Place) -> str:
    """Return `function (file:line)`, on one line."""
    where = f"{shortened(place.file)}:{place.line}" if place.line else shortened(place.file)
    function = printable(place.function, most=120)
    return f"{function} ({where})" if where else function


def frame_lines(frames: Sequence[Place], width: int, *, most: int = MOST_FRAMES) -> list[Line]:
    """Return `frames` (outermost first) as aligned lines, the innermost last and marked with an arrow."""
    kept = frames[-most:]
    lines: list[Line] = []
    if len(frames) > len(kept):
        outer = counted(len(frames) - len(kept), "outer frame")
        lines.append((Span(f"  … {outer} not shown", Style.DIM),))
    names = [printable(frame.function, most=_LONGEST_FUNCTION) for frame in kept]
    column = max(columns_of([[name] for name in names]), default=0)
    for at, (name, frame) in enumerate(zip(names, kept, strict=True)):
        lines.append(_frame(name, frame, column, width, innermost=at == len(kept) - 1))
    return lines


def _frame(name: str, frame: Place, column: int, width: int, *, innermost: bool) -> Line:
    mark = Span("→ ", Style.WARNING) if innermost else Span("  ")
    shown = Span(pad(name, column) + "  ", Style.BOLD if innermost else Style.PLAIN)
    number = f":{frame.line}" if frame.line else ""
    left = width - 2 - display_width(shown.text) - len(number)
    return (mark, shown, Span(shortened(frame.file, max(left, 12)) + number, Style.DIM))
