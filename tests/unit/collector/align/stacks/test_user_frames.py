"""Whose code a frame is, where its file does not tell."""

import pytest

from collector.align.stacks.user_frames import is_user_frame
from shared.wire.stacks import Frame


@pytest.mark.parametrize(
    ("function", "line", "users"),
    [
        ("main", 4, True),  # python -c
        ("<module>", 2, True),
        ("<lambda>", 1, True),  # eval of a configuration
        ("<module>", 1, False),  # from multiprocessing.spawn import spawn_main; spawn_main(...)
        ("__init__", 3, False),  # of a data class
        ("Batch.__eq__", 3, False),
    ],
)
def test_executed_text(function: str, line: int, *, users: bool) -> None:
    """It is the user's, but for what Python's library executes so."""
    assert is_user_frame(Frame(function, "<string>", line)) == users


def test_a_comprehension_is_part_of_its_function() -> None:
    """As it is in Python itself from 3.12 on; before, it is a frame of its own."""
    assert not is_user_frame(Frame("gather_counts.<locals>.<listcomp>", "/home/ada/train.py", 24))
    assert is_user_frame(Frame("gather_counts", "/home/ada/train.py", 24))
