"""Stacks that people have put together by ranks: which are read, whose they are, and what is none."""

import pytest

from shared.formats.grouped_stacks import is_grouped, parse_grouped_stacks

BESIDE = """TP0,2:   all_reduce              (torch/distributed/distributed_c10d.py:3252)
TP3:     build_batch             (planner.py:77)
           forward               (planner.py:12)   <- where it is told apart
"""
BELOW = """**Rank 0 (in the loader):**
_recv (multiprocessing/connection.py:398)
next_batch (loader.py:61)

**Rank 0 worker (one of 4):**
decode (frames.py:31)
read (frames.py:9)

**Ranks 1-2 & 5:**
barrier (torch/distributed/distributed_c10d.py:5030)
main (train.py:7)
"""


def places(text: str) -> list[tuple[tuple[int, ...], list[str]]]:
    groups = parse_grouped_stacks(text)
    return [(group.ranks, [frame.function for frame in group.stacks.frames]) for group in groups]


def test_beside_the_ranks() -> None:
    assert is_grouped(BESIDE)
    assert places(BESIDE) == [((0, 2), ["all_reduce"]), ((3,), ["forward", "build_batch"])]


def test_below_the_ranks_and_another_process_is_of_none() -> None:
    assert is_grouped(BELOW)
    assert places(BELOW) == [
        ((0,), ["next_batch", "_recv"]),
        ((), ["read", "decode"]),
        ((1, 2, 5), ["main", "barrier"]),
    ]


def test_two_kinds_of_numbers_name_nobody() -> None:
    text = BESIDE.replace("TP3", "DP3")
    assert [ranks for ranks, _ in places(text)] == [(), ()]


def test_a_rank_that_comes_twice_is_in_a_log() -> None:
    text = "Rank 0: load (data.py:7)\nRank 1: load (data.py:7)\nRank 0: step (train.py:9)\n"
    assert {ranks for ranks, _ in places(text)} == {()}


@pytest.mark.parametrize(
    "text",
    [
        "rank 0: step 7 (train.py:31)\nrank 1: step 7 done\nall went well\n",
        "Rank 0: barrier (torch/distributed/distributed_c10d.py:5030)\nthen it all hung\nfor long\n",
        "    load (data.py:7)\n    main (train.py:9)\n",
        "",
    ],
)
def test_what_is_not(text: str) -> None:
    assert not is_grouped(text)
