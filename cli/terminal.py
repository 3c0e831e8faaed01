"""Standard output: JSON alone where asked for, else text in the colours, width and characters it can take."""

import os
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

V = TypeVar("V", bound="BaseModel")

PIPE_COLUMNS = 100
"""Where nobody says how wide the reader's screen is."""

_MOST_COLUMNS = 160
_PLAIN = str.maketrans({"→": ">", "←": "<", "↔": "-", "…": ".", "—": "-", "·": "-", "＠": "@"})
_LINES = str.maketrans({"├": "|", "│": "|", "└": "`", "┌": "+", "─": "-"})


def escape(text: str) -> str:
    """Return `text` with everything that could steer a terminal written as an escape, newlines kept."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


def wants_colour(choice: str) -> bool:
    """Return whether to colour standard output, `choice` being `auto`, `always` or `never`."""
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Return the columns to write for: the terminal's, else $COLUMNS, else 100."""
    return min(screen() or PIPE_COLUMNS, _MOST_COLUMNS)


def screen() -> int | None:
    """Return the columns of the reader's screen; None: nobody says, as in a pipe."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns
    return None


def emit(text: str) -> None:
    """Write `text` to standard output, with plainer characters where it cannot take ours."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAIN).translate(_LINES).encode(encoding, "backslashreplace").decode(encoding)
    sys.stdout.write(text)
    sys.stdout.flush()


def redraw(text: str) -> None:
    """Write `text` over what is on the terminal, as far as it fits; into a file or pipe, below what is there."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        emit(text + "\n")
        return
    lines = text.splitlines()
    room = max(shutil.get_terminal_size().lines - 1, 2)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines; without --watch all are shown"]
    emit("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")


def emit_json(value: "BaseModel") -> None:
    """Write `value` as one JSON document and nothing else, indented for people."""
    emit(value.model_dump_json(by_alias=True, indent=2 if sys.stdout.isatty() else None) + "\n")


def answer(value: V, as_json: bool, as_text: Callable[[V], str]) -> None:
    """Write an answer: as one JSON document where asked for, else as a person reads it."""
    if as_json:
        emit_json(value)
    else:
        emit(as_text(value))


def note(text: str) -> None:
    """Say something to the person on stderr; standard output is for the answer."""
    print(escape(text), file=sys.stderr, flush=True)
