"""When a sleeping process wakes by itself, by the arguments of the system call that it sleeps in.

A back-off of half a minute and a sleep for a day look alike until one knows that. Python's `time.sleep` is
`clock_nanosleep` with the time of its end from 3.11 on, and `select` without descriptors before; `sleep(1)` and others
use `clock_nanosleep` or `nanosleep` with a length: how much of that is over is not known, so it is the longest left.
`Event.wait(seconds)`, which whoever wants to be woken early sleeps by, is a `futex` with the time of its end.
"""

import struct
import time
from collections.abc import Callable, Sequence

_TIMESPEC = struct.Struct("=qq")
_TIMER_ABSTIME = 1
_CLOCKS = {0: time.CLOCK_REALTIME, 1: time.CLOCK_MONOTONIC, 7: time.CLOCK_BOOTTIME}
"""By their numbers in include/uapi/linux/time.h."""
_NANOSECONDS, _MICROSECONDS = 1e9, 1e6
_LONGEST_SECONDS = 1e12
"""Python's own limit is 292 years, 9.2e9 s."""

_FUTEX_WAIT_BITSET, _FUTEX_CLOCK_REALTIME = 9, 256
"""include/uapi/linux/futex.h. `FUTEX_PRIVATE_FLAG`, 128, stands beside these."""

SLEEPS = frozenset({"nanosleep", "clock_nanosleep", "select", "pselect6"})
MAY_END = SLEEPS | {"futex"}
"""Calls whose arguments may tell when they end."""

ReadMemory = Callable[[int, int], bytes]
"""So many bytes at an address of the process."""


def seconds_left(name: str, arguments: Sequence[int], read: ReadMemory) -> float | None:
    """Return how long the call lasts at most from now on; None: it waits for more than time, or that cannot be read."""
    if name == "futex" and len(arguments) > 3:
        return _of_futex(arguments, read)
    if name not in SLEEPS or len(arguments) < 5:
        return None
    if name == "nanosleep":
        return _length(read(arguments[0], _TIMESPEC.size), _NANOSECONDS)
    if name == "clock_nanosleep":
        asked = _length(read(arguments[2], _TIMESPEC.size), _NANOSECONDS)
        if not arguments[1] & _TIMER_ABSTIME or asked is None:
            return asked
        clock = _CLOCKS.get(arguments[0])
        return None if clock is None else max(0.0, asked - time.clock_gettime(clock))
    if arguments[0] != 0 or arguments[4] == 0:
        return None  # descriptors may wake it, or nothing ever does
    return _length(read(arguments[4], _TIMESPEC.size), _MICROSECONDS if name == "select" else _NANOSECONDS)


def _of_futex(arguments: Sequence[int], read: ReadMemory) -> float | None:
    how, until = arguments[1], arguments[3]
    if how & 127 != _FUTEX_WAIT_BITSET or until == 0:
        return None
    asked = _length(read(until, _TIMESPEC.size), _NANOSECONDS)
    clock = time.CLOCK_REALTIME if how & _FUTEX_CLOCK_REALTIME else time.CLOCK_MONOTONIC
    return None if asked is None else max(0.0, asked - time.clock_gettime(clock))


def _length(told: bytes, parts: float) -> float | None:
    """Read whole seconds and a fraction, which is counted in `parts` of one."""
    if len(told) < _TIMESPEC.size:
        return None
    whole, fraction = _TIMESPEC.unpack(told)
    return whole + fraction / parts if 0 <= whole < _LONGEST_SECONDS and 0 <= fraction < parts else None
