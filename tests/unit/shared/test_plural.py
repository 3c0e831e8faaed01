"""Singular and plural: one helper for every sentence."""

import pytest

from shared.plural import counted, either, in_sentence, ranks_with


def test_counts_read_well() -> None:
    """One rank, two ranks, two classes."""
    assert [counted(1, "rank"), counted(2, "rank"), counted(2, "class")] == ["1 rank", "2 ranks", "2 classes"]


@pytest.mark.parametrize(
    ("many", "form"), [(0, "are"), (1, "is"), (2, "are"), ((), "are"), ((7,), "is"), ("ab", "are")]
)
def test_form_follows_the_number(many: int | tuple[int, ...], form: str) -> None:
    """Of a number or of what has a length."""
    assert either(many, "is", "are") == form


@pytest.mark.parametrize(
    ("ranks", "said"),
    [((2,), "rank 2 is"), ((2, 2), "rank 2 is"), ((0, 1, 3), "ranks 0-1,3 are"), ((), "no rank is")],
)
def test_verb_agrees_with_the_ranks(ranks: tuple[int, ...], said: str) -> None:
    """A rank named twice is still one."""
    assert ranks_with(ranks, "is", "are") == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{late} and {waiting}", "rank 3 and ranks 0-2"),
        ("{late:waits|wait}, {waiting:waits|wait}", "rank 3 waits, ranks 0-2 wait"),
        ("for {late:?it|them}, for {waiting:?it|them}", "for it, for them"),
        ("{op} for {seconds:.1f} s{unknown}", "barrier {late} for 2.5 s"),
    ],
)
def test_a_sentence_names_ranks_and_leaves_foreign_text_as_it_is(text: str, said: str) -> None:
    words = {"late": (3,), "waiting": {2, 0, 1}, "op": "barrier {late}", "seconds": 2.51}
    assert in_sentence(text, words) == said
