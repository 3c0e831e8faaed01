"""Which disagreement decides: the earliest, or a later one that more witness and that splits them in the same way."""

import pytest

from collector.judge.marks.sides import telling_difference


@pytest.mark.parametrize(
    ("later", "decided_at"),
    [([0, 1, 4, 5], 7), ([0, 1, 2, 4, 5], 5)],
    ids=["both of a side are odd", "one of a side is odd"],
)
def test_a_later_majority_decides_a_tie_whose_sides_it_does_not_cut(later: list[int], decided_at: int) -> None:
    odd = [rank for rank in range(6) if rank not in later]
    found = telling_difference({5: {"a": [0, 1], "b": [2, 3]}, 7: {"a": later, "b": odd}})
    assert found is not None
    assert found[0] == decided_at
