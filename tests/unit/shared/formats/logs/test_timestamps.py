"""Stamps of log lines, and what only looks like one."""

import time

import pytest

from shared.formats.logs.timestamps import moment_of, seconds_between, stamp_of


@pytest.mark.parametrize(
    ("line", "stamp"),
    [
        ("[rank0]:[E606 09:09:08.168 ProcessGroupNCCL.cpp:757] x", "06-06 09:09:08.168"),
        ("[rank0]:[E1206 09:09:08 ProcessGroupNCCL.cpp:757] x", "12-06 09:09:08"),
        ("50%|## [00:09<01:08][rank0]:[W321 02:07:08.1 x.cpp:1] x", "03-21 02:07:08.1"),
        (
            "E0703 21:52:01.551000 924 torch/distributed/elastic/multiprocessing/api.py:988] failed",
            "07-03 21:52:01.551000",
        ),
        ("[2026-03-03 12:11:38] node1:42:51 [1] x", "2026-03-03 12:11:38"),
        ("[2025-10-16T08:52:15.650] error: x", "2025-10-16 08:52:15.650"),
        ("2026-11-21 09:10:11,123 INFO x", "2026-11-21 09:10:11.123"),
        ("[rank0]: ValueError: 12:30:00", ""),
        ("E1121 is the name of a book", ""),
        ("x" * 400 + "2026-11-21 09:10:11", ""),
        ("", ""),
    ],
)
def test_stamps(line: str, stamp: str) -> None:
    assert stamp_of(line) == stamp


def test_a_stamp_without_a_year_is_of_the_year_before_if_it_would_lie_ahead() -> None:
    written_at = time.mktime((2026, 1, 2, 0, 0, 0, 0, 0, -1))
    assert moment_of("12-31 23:00:00", written_at=written_at) == time.mktime((2025, 12, 31, 23, 0, 0, 0, 0, -1))
    assert moment_of("01-01 23:00:00", written_at=written_at) == time.mktime((2026, 1, 1, 23, 0, 0, 0, 0, -1))


@pytest.mark.parametrize("stamp", ["", "13-45 99:99:99", "2026-02-30 00:00:00", "x"])
def test_what_is_no_time_is_none(stamp: str) -> None:
    assert moment_of(stamp, written_at=1.8e9) is None


def test_stamps_are_compared_without_their_years() -> None:
    assert seconds_between("11-21 09:00:00", "2026-11-21 09:00:01.500000") == 1.5
    assert seconds_between("11-21 09:00:00", "") is None
    assert seconds_between("x", "11-21 09:00:00") is None
