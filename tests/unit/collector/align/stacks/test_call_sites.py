"""The call in the training loop at which a stack parts from the others."""

from collections.abc import Sequence

import pytest

from collector.align.stacks.call_sites import parting_call
from shared.wire.stacks import Frame

TRAIN = "/home/ada/train.py"
LIBRARY = "/env/lib/python3.11/site-packages/lightning/loops/fit.py"
MAIN = Frame("<module>", TRAIN, 90)
REDUCES = [MAIN, Frame("train", TRAIN, 44), Frame("all_reduce", "torch/distributed/distributed_c10d.py", 3252)]
HELPERS = [Frame("load_index", "/home/ada/data.py", 12), Frame("wait_for_quota", "/home/ada/quota.py", 3)]


@pytest.mark.parametrize(
    ("frames", "others", "expected"),
    [
        ([MAIN, Frame("train", TRAIN, 40), *HELPERS], [REDUCES], Frame("train", TRAIN, 40)),
        ([MAIN, *HELPERS], [REDUCES], MAIN),
        # the nearest relative decides: another rank has not come to the loop yet
        ([MAIN, Frame("train", TRAIN, 40), *HELPERS], [[MAIN], REDUCES], Frame("train", TRAIN, 40)),
        # a library drives the loop: the first of the user's functions that it calls
        ([MAIN, Frame("fit", LIBRARY, 9), *HELPERS], [[MAIN, Frame("fit", LIBRARY, 11)]], HELPERS[0]),
        # the library calls nothing of the user's: where the user has called the library
        ([MAIN, Frame("fit", LIBRARY, 9)], [[MAIN, Frame("fit", LIBRARY, 11)]], MAIN),
        ([MAIN, *HELPERS], [[Frame("<module>", "/home/ada/other.py", 1)]], None),
        ([MAIN, *HELPERS], [], None),
        ([MAIN, *HELPERS], [[]], None),
        ([], [REDUCES], None),
    ],
)
def test_parting_call(frames: Sequence[Frame], others: list[Sequence[Frame]], expected: Frame | None) -> None:
    """The innermost function that both are in, if it is the user's."""
    assert parting_call(frames, others) == expected
