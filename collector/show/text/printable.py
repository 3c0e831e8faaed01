"""Foreign text made fit to print: names, paths and log lines come from jobs and may be hostile."""

import re
import unicodedata

MOST_CHARACTERS = 2_000
"""Of one text. Longer ones are cut: nothing that a person is to read at once is longer."""

_INSTALLED = re.compile(r".*/(?:site-packages|dist-packages|lib/python3\.\d+)/")


def printable(text: str, *, most: int = MOST_CHARACTERS) -> str:
    """Return `text` on one line, without anything that steers a terminal, cut to `most` characters.

    Control, format (text direction), surrogate and private characters are written as escapes, `\\x1b`.
    """
    cut = text if len(text) <= most else text[: most - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else _escaped(char) for char in cut)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def display_width(text: str) -> int:
    """Return how many columns of a terminal printable `text` takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def is_installed(path: str) -> bool:
    """Does a source file belong to Python or to an installed package?"""
    return _INSTALLED.match(path) is not None


def shortened(path: str, width: int | None = None) -> str:
    """Return a source path without the place its package is installed in, cut on the left to `width`."""
    shown = printable(_INSTALLED.sub("", path, count=1))
    if width is None or display_width(shown) <= width:
        return shown
    kept = shown
    while kept and display_width(kept) > max(1, width - 1):
        kept = kept[1:]
    whole_names = kept[kept.find("/") :] if "/" in kept else kept
    return "…" + (whole_names if whole_names != "/" else kept)
