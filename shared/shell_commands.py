"""Commands that people copy into a shell: names from jobs and nodes stay words in them, and are never options."""

import re
import shlex
from collections.abc import Sequence

MOST_CHARACTERS = 1_000
"""A longer command is left out: it might be cut when shown, and a cut command is a different one."""

_NO_TWO_SHELLS_AGREE = re.compile(r"([\\'!])")

WHY_NONE = "no command is given: a name in it is too long, or contains characters that a terminal does not show"


def shell_word(word: str) -> str:
    """Quote a word for sh, csh and fish alike; for csh it must hold no line ends.

    Within single quotes a backslash escapes in fish, and an exclamation mark is history in csh. So these are outside
    the quotes, after a backslash, which all shells read the same way.
    """
    parts = _NO_TWO_SHELLS_AGREE.split(word)
    return "".join(f"\\{part}" if at % 2 else shlex.quote(part) for at, part in enumerate(parts) if part) or "''"


def shell_words(words: Sequence[str]) -> str:
    """Quote the words of a command, as `shell_word` does."""
    return " ".join(map(shell_word, words))


def copyable(*words: str, operands: tuple[str, ...] = ()) -> str | None:
    """Return the command of these words, quoted for a shell, with `operands` behind `--`.

    Foreign words belong in `operands`, or after an option that takes a value. None if a word is longer than anyone
    reads, or contains unprintable characters: control characters, line ends, marks of text direction.
    """
    whole = (*words, *(("--", *operands) if operands else ()))
    if not all(word.isprintable() for word in whole):
        return None
    command = shell_words(whole)
    return command if len(command) <= MOST_CHARACTERS else None


def listed(names: Sequence[str], *, most: int = 20) -> str:
    """Return the first of some names, each quoted as one word for a shell, separated by commas."""
    return ", ".join(map(shell_word, names[:most]))
