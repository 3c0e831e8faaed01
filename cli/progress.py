"""How far a diagnosis has come, told on stderr: one line that is written over on a terminal, lines with `-v`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.question import Progress, Step

_CLEAR = "\r\x1b[K"


@contextmanager
def told_progress(*, verbose: bool) -> "Iterator[Progress | None]":
    """Yield what to tell of each step: lines where `verbose`, else one line on a terminal, else nothing."""
    if verbose:
        yield _say_line
    elif sys.stderr.isatty():
        with _Line() as line:
            yield line.tell
    else:
        yield None


def _say_line(step: "Step") -> None:
    if step.finished == 0:
        print(words(step), file=sys.stderr, flush=True)


class _Line:
    """A line on the terminal that is written over, and wiped at the end."""

    def __init__(self) -> None:
        self._shown = ""

    def __enter__(self) -> "_Line":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._write("")

    def tell(self, step: "Step") -> None:
        """Show how far it is, where that is news."""
        text = f"{words(step)} …"
        if text != self._shown:
            self._write(text)

    def _write(self, text: str) -> None:
        sys.stderr.write(_CLEAR + text)
        sys.stderr.flush()
        self._shown = text


def words(step: "Step") -> str:
    """Return what a step does, for a person."""
    so_far = f" ({step.finished} of {step.asked} nodes)" if step.asked > 1 else ""
    match step.stage.value:
        case "finding":
            return f"finding ranks{so_far}"
        case "looking":
            return f"look {step.look}{so_far}"
        case "waiting":
            if step.reason:
                return f"waiting up to {step.seconds:.0f} s {step.reason}"
            return f"waiting {step.seconds:.1f} s to see what moves"
        case "looking_closer":
            return f"looking closer at suspects{so_far}"
        case "looking_deeper":
            return f"reading native stacks{so_far}"
        case _:
            return "judging"
