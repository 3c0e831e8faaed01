"""Names of the system calls that a stuck process is found in, and which of them name a descriptor (syscalls.toml)."""

import platform
from functools import cache
from typing import Any, NamedTuple

from agent.proc.procfs import ProcFs
from shared.packs import read_pack

_MACHINES = ("x86_64", "aarch64")


class SystemCall(NamedTuple):
    """The call that a thread is in."""

    name: str
    arguments: tuple[int, ...]


_POLLS_AT = "poll_schedule_timeout"
"""Of what begins again only poll(2) sleeps there: select(2) is called again as itself."""


def read_syscall(procfs: ProcFs, pid: int, tid: int | None = None) -> SystemCall | None:
    """Return the call that a thread, by default the main one, is in; `running` where it is in none; None: not told.

    What stops it for a moment, such as reading its native stack, has poll(2) begin again as another call, which keeps
    the arguments. Raises Gone or NotPermitted.
    """
    # 0 0x3 0x7ffd5a60e3a0 0x1000 0x0 0x0 0x0 0x7ffd5a60e338 0x7f21fa0a19ee        running        -1 0x7ffe 0x7f21
    of = "" if tid is None else f"task/{tid}/"
    words = procfs.text(pid, f"{of}syscall").split()
    if not words or words[0] == "-1":
        return None
    if not words[0].isdecimal():
        return SystemCall("running", ())
    name = syscall_name(int(words[0]))
    polls = name == "restart_syscall" and procfs.known_text(pid, f"{of}wchan").startswith(_POLLS_AT)
    return SystemCall("poll" if polls else name, tuple(int(word, 16) for word in words[1:7]))


def takes_lock(name: str) -> bool:
    """May a process be in this system call because it waits for a file lock?"""
    return name in ("flock", "fcntl")


def syscall_name(number: int, machine: str | None = None) -> str:
    """Return the name of a system call, or `syscall_N` for one that processes are rarely stuck in."""
    return _names(machine or platform.machine()).get(number, f"syscall_{number}")


def fd_argument(name: str) -> int | None:
    """Return which argument of a system call is the descriptor it works on, counted from 0."""
    return _argument("descriptor", name)


def path_argument(name: str) -> int | None:
    """Return which argument of a system call points to the path it works on, counted from 0."""
    return _argument("path", name)


def _argument(what: str, name: str) -> int | None:
    (places,) = _pack()["arguments"]
    return next((at for at, place in enumerate(("first", "second")) if name in places[f"{what}_{place}"].split()), None)


@cache
def _names(machine: str) -> dict[int, str]:
    (numbers,) = _pack()["numbers"]
    told = ((dict(zip(_MACHINES, each.split(), strict=True)).get(machine, "-"), name) for name, each in numbers.items())
    return {int(number): name for number, name in told if number != "-"}


@cache
def _pack() -> dict[str, list[dict[str, Any]]]:
    return read_pack(__file__, "syscalls.toml")
