"""Which rows of patterns a text must be searched with: those of which it holds a hint. Most lines hold none.

With some two hundred hints, looking for each of them would be most of what redaction costs. So they are filed under
letters that they contain and lines of logs seldom do: without the letters, no hint of that file is there, either.
"""

from collections.abc import Iterable, Sequence

_LETTERS = "hv 7z xox -std dap %2 wi pd t- tp ip sk Q key Y // ey pi ig ad q A as S li ct _ x w ok g y u p c s".split()
"""Seldom ones first; chosen by what they save on logs of training jobs."""


class HintIndex:
    """Rows by their hints."""

    def __init__(self, hints_of_rows: Iterable[tuple[int, Sequence[str]]]) -> None:
        self._rows: dict[str, list[int]] = {}
        for row, hints in hints_of_rows:
            for hint in hints:
                self._rows.setdefault(hint, []).append(row)
        self._files: dict[str, list[str]] = {}
        for hint in self._rows:
            letters = next((letters for letters in _LETTERS if letters in hint), hint)
            self._files.setdefault(letters, []).append(hint)

    def rows(self, text: str) -> list[int]:
        """Return the rows of which this text holds a hint."""
        holds = text.__contains__
        return [
            row
            for file in filter(holds, self._files)
            for hint in filter(holds, self._files[file])
            for row in self._rows[hint]
        ]
