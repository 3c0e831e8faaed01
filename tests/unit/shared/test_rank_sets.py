"""Rank sets fold to a canonical text and back, and refuse what is hostile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidRankSet
from shared.rank_sets import fold, ranks_in_words, unfold


@given(st.sets(st.integers(0, 10_000)))
def test_unfold_reverses_fold(ranks: set[int]) -> None:
    assert set(unfold(fold(ranks))) == ranks


@given(st.lists(st.integers(0, 500)))
def test_folding_depends_on_the_set_alone(ranks: list[int]) -> None:
    assert fold(ranks) == fold(sorted(set(ranks)))


@pytest.mark.parametrize(
    ("ranks", "text"), [([], ""), ([0], "0"), ([1, 0], "0-1"), ([3, 0, 1, 7, 8], "0-1,3,7-8"), ([5, 5], "5")]
)
def test_spans_are_ascending_and_maximal(ranks: list[int], text: str) -> None:
    assert fold(ranks) == text


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "0-99999999", "1;2", "0x1", "٣", "1-2-3", "9" * 40])
def test_what_is_no_rank_set_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(InvalidRankSet):
        unfold(text)


def test_many_spans_together_are_bounded_too() -> None:
    with pytest.raises(InvalidRankSet, match="holds more than"):
        unfold("0-4000000,5000000-8999999")


@pytest.mark.parametrize(("ranks", "words"), [([], "no rank"), ([3], "rank 3"), ([0, 1, 2], "ranks 0-2")])
def test_ranks_in_words(ranks: list[int], words: str) -> None:
    assert ranks_in_words(ranks) == words
