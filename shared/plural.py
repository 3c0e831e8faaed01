"""Singular and plural in sentences: the one place that decides which form goes with a number or a set of ranks."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from string import Formatter
from typing import Any

from shared.rank_sets import ranks_in_words


def counted(number: int, noun: str) -> str:
    """Return `1 rank`, `3 ranks`, `2 classes`."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number} {noun if number == 1 else plural}"


def either(many: int | Collection[object], one: str, several: str) -> str:
    """Return the form for `many`: `one` for a single item, else `several`."""
    number = many if isinstance(many, int) else len(many)
    return one if number == 1 else several


def ranks_with(ranks: Collection[int], one: str, several: str) -> str:
    """Name `ranks` with the verb that agrees with them: `rank 3 waits`, `ranks 0-2 wait`, `no rank waits`."""
    return f"{ranks_in_words(ranks)} {one if len(set(ranks)) < 2 else several}"


class _Sentence(Formatter):
    def format_field(self, value: Any, form: str) -> Any:
        if not isinstance(value, tuple | list | set | frozenset):
            return super().format_field(value, form)
        one, _, several = form.removeprefix("?").partition("|")
        if form.startswith("?"):
            return either(value, one, several)
        return ranks_with(value, one, several) if form else ranks_in_words(value)


def in_sentence(text: str, words: Mapping[str, object]) -> str:
    """Fill a sentence of a pack; what is not known is left out.

    Ranks are named by `{ranks}`, with their verb by `{ranks:waits|wait}`, and not at all by `{ranks:?it|them}`.
    """
    return _Sentence().vformat(text, (), defaultdict(str, words))
