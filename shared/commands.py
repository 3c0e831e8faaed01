"""Commands that people copy into a shell: names from jobs and nodes stay words in them, and are never options."""

import shlex
from collections.abc import Sequence

MOST_CHARACTERS = 1_000
"""A longer command is left out: whoever shows text may cut it, and a cut command is another one."""

WHY_NONE = "no command is given: a name in it is too long, or contains characters that a terminal does not show"


def copyable(*words: str, operands: tuple[str, ...] = ()) -> str | None:
    """Return the command of these words, quoted for a shell, with `operands` behind `--`.

    Foreign words belong into `operands`, or behind an option that takes a value. None where a word is longer than
    anybody reads, or holds what does not print: control characters, line ends, marks of text direction.
    """
    whole = (*words, *(("--", *operands) if operands else ()))
    if not all(word.isprintable() for word in whole):
        return None
    command = shlex.join(whole)
    return command if len(command) <= MOST_CHARACTERS else None


def listed(names: Sequence[str], *, most: int = 20) -> str:
    """Return the first of some names, each as a shell would take it for one word; commas stand between them."""
    return ", ".join(shlex.quote(name) for name in names[:most])
