"""When a sleep is over, by the arguments of its system call; those of real sleepers are in test_process.py."""

import struct
import time

import pytest

from agent.proc.sleep_ends import seconds_left

AT = 0x1000


def memory(seconds: int, fraction: int) -> bytes:
    """What lies at the address of a time."""
    return struct.pack("=qq", seconds, fraction)


@pytest.mark.parametrize(
    ("name", "arguments", "told", "left"),
    [
        ("nanosleep", (AT, 0, 0, 0, 0, 0), memory(32, 500_000_000), 32.5),
        ("clock_nanosleep", (1, 0, AT, 0, 0, 0), memory(7, 0), 7.0),
        ("select", (0, 0, 0, 0, AT, 0), memory(86_400, 250_000), 86_400.25),
        ("pselect6", (0, 0, 0, 0, AT, 0), memory(3, 0), 3.0),
        ("select", (0, 0, 0, 0, 0, 0), b"", None),  # it waits for ever, or for a signal
        ("select", (5, AT, 0, 0, AT, 0), memory(3, 0), None),  # descriptors may wake it
        ("poll", (AT, 1, 5_000, 0, 0, 0), memory(3, 0), None),
        ("clock_nanosleep", (99, 1, AT, 0, 0, 0), memory(7, 0), None),  # a clock that is not known
        ("nanosleep", (AT, 0, 0, 0, 0, 0), memory(-1, 0), None),
        ("nanosleep", (AT, 0, 0, 0, 0, 0), memory(1, 2_000_000_000), None),
        ("nanosleep", (AT, 0, 0, 0, 0, 0), memory(1 << 62, 0), None),
        ("nanosleep", (AT, 0, 0, 0, 0, 0), b"short", None),
        ("nanosleep", (), b"", None),
        ("futex", (AT, 137, 0, 0, 0, 0), b"", None),  # a lock without a timeout
        ("futex", (AT, 128, 0, AT, 0, 0), memory(7, 0), None),  # FUTEX_WAIT, which Python does not use
    ],
)
def test_length_is_read_where_nothing_but_time_ends_it(
    name: str, arguments: tuple[int, ...], told: bytes, left: float | None
) -> None:
    assert seconds_left(name, arguments, lambda address, most: told[:most] if address == AT else b"") == left


def test_time_of_its_end_counts_from_now() -> None:
    """As Python's own sleep gives it."""
    end = time.clock_gettime(time.CLOCK_MONOTONIC) + 20.0
    left = seconds_left("clock_nanosleep", (1, 1, AT, 0, 0, 0), lambda *_: memory(int(end), 0))
    assert left is not None and 15.0 < left <= 20.0
    assert seconds_left("clock_nanosleep", (1, 1, AT, 0, 0, 0), lambda *_: memory(1, 0)) == 0.0
    of_an_event = seconds_left("futex", (AT, 137, 0, AT, 0, 0), lambda *_: memory(int(end), 0))
    assert of_an_event is not None and 15.0 < of_an_event <= 20.0
