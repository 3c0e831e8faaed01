"""Rank 0 tokenizes a corpus in Python, one core at 100 %; the others wait."""

import collections
import itertools
import re

import ranks

LAUNCHES = ["torchrun"]

TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom, the age of foolishness. " * 50


def tokenize(text: str, counts: collections.Counter[str]) -> None:
    """Cut a text into words, and count their pairs of letters."""
    for word in re.findall(r"\w+|[^\w\s]", text):
        counts.update(first + second for first, second in itertools.pairwise(word))


def tokenize_corpus(deadline: float) -> None:
    """Tokenize document after document."""
    counts: collections.Counter[str] = collections.Counter()
    while ranks.before(deadline):
        tokenize(TEXT, counts)


if __name__ == "__main__":
    ranks.others_wait_while(tokenize_corpus)
