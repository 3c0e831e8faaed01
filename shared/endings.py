"""How a process ended, and what that says of its job: it failed, was asked to end, or ended well."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

_ASKED = frozenset({1, 2, 3, 15})
"""SIGHUP, SIGINT, SIGQUIT, SIGTERM: by signal(7), alike on all architectures. People, launchers and schedulers end
processes with these."""
_SHELLS_OFFSET = 128
"""What a shell, and a program that handles a signal as shells do, adds to its number in an exit code."""


_NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    6: "SIGABRT",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
}
"""Those of POSIX, whose numbers are alike on all architectures."""


class ProcessEnd(Protocol):
    """All that anybody saw of the end of a process."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def signal(self) -> int | None: ...
    @property
    def oom_killed(self) -> bool | None: ...


class JobEnd(StrEnum):
    """How a job ended of which no rank is left."""

    FINISHED = "finished"
    """Every rank is known to have exited with code 0."""
    DIED = "died"
    """A rank ended by a signal or with an error, whoever sent the signal."""
    ENDED = "ended"
    """Nobody saw how all of them ended."""


def ended_badly(ending: ProcessEnd) -> bool:
    """Did it end by a signal or with an error?"""
    return bool(ending.oom_killed) or bool(ending.signal) or bool(ending.exit_code)


def ended_well(ending: ProcessEnd) -> bool:
    """Is it known to have exited with code 0?"""
    return ending.exit_code == 0 and not ended_badly(ending)


def asked_to_end(ending: ProcessEnd) -> bool:
    """Did it end as who is told to does, by a signal that it might have handled?"""
    return not ending.oom_killed and (ending.signal in _ASKED or (ending.exit_code or 0) - _SHELLS_OFFSET in _ASKED)


def end_of(endings: Iterable[ProcessEnd], world_size: int | None) -> JobEnd:
    """Return how a job ended, from the endings of its ranks that are known."""
    known = list(endings)
    if any(map(ended_badly, known)):
        return JobEnd.DIED
    every = bool(known) and len(known) >= (world_size or 0) and all(map(ended_well, known))
    return JobEnd.FINISHED if every else JobEnd.ENDED


def in_words(ending: ProcessEnd | None) -> str:
    """Say what became of a process, after its name: `was killed by signal 9 (SIGKILL)`."""
    if ending is not None and ending.oom_killed:
        return f"was OOM-killed{_by(ending.signal)}"
    if ending is not None and ending.signal:
        return f"was {'ended' if asked_to_end(ending) else 'killed'}{_by(ending.signal)}"
    if ending is None or ending.exit_code is None:
        return "ended, and nobody saw how"
    return f"exited with code {ending.exit_code}"


def _by(signal: int | None) -> str:
    if not signal:
        return ""
    return f" by signal {signal} ({_NAMES[signal]})" if signal in _NAMES else f" by signal {signal}"
