"""Where the threads of a simulated training job are: Python stacks as py-spy would show them, of job.toml."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from shared.wire.stacks import Frame

_PACKAGES = "/usr/local/lib/python3.12/dist-packages"
_PYTHON = "/usr/lib/python3.12"
_ROOTS = {"torch": _PACKAGES, "megatron": _PACKAGES, "tensorboard": _PACKAGES, "nccl": "/usr/lib", "train": "/opt"}

_DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_name("job.toml").read_text(encoding="utf-8"))
VARIABLES: dict[str, str] = _DATA["variables"]


@cache
def in_step(name: str, line: int = 0, op: str = "") -> tuple[Frame, ...]:
    """Return where the main thread is in a step; `line` and `op` fill what job.toml leaves open there."""
    return frames_of(_DATA["step"] + _DATA[name], line, op)


@cache
def backward(line: int) -> tuple[Frame, ...]:
    """Call an all_reduce in the backward pass: on a thread of autograd's, whose Python begins at the hook."""
    return frames_of(_DATA["backward"], line)


@cache
def below_the_handle() -> tuple[Frame, ...]:
    """The native frames below a handle's wait, outermost first."""
    return tuple(frame._replace(native=True) for frame in reversed(frames_of(_DATA["native"])))


@cache
def other_threads() -> tuple[tuple[str, tuple[Frame, ...]], ...]:
    """The threads of a rank beside the main one, with their names."""
    return tuple((name, frames_of(_DATA["thread"] + stack)) for name, stack in _DATA["threads"].items())


@cache
def worker(*, reading: bool) -> tuple[Frame, ...]:
    """A DataLoader worker's main thread: waiting for a task, or reading a document."""
    return frames_of(_DATA["worker"] + (_DATA["reading_worker"] if reading else _DATA["idle_worker"]))


@cache
def feeder() -> tuple[Frame, ...]:
    """The thread of a DataLoader worker that sends what it has read."""
    return frames_of(_DATA["thread"] + _DATA["threads"]["QueueFeederThread"])


def frames_of(stack: str, line: int = 0, op: str = "") -> tuple[Frame, ...]:
    """Read a stack in the notation of job.toml; `line` and `op` fill its gaps."""
    return tuple(_frame(each.replace("{layer}", str(line)).replace("{op}", op)) for each in stack.split("\n") if each)


def _frame(text: str) -> Frame:
    function, _, place = text.partition(" ")
    file, _, line = place.rpartition(":")
    root = _ROOTS.get(file.partition("/")[0], _PYTHON)
    return Frame(function, f"{root}/{file}", int(line))
