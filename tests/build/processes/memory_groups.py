"""Control groups of a test's own whose memory is bounded: whoever takes more in them is killed by the kernel.

There is one at a time on a machine: of two processes that were killed at once nobody can tell which one was the rank.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agent.proc.oom_counts import CGROUPS

_V1, _V2 = (CGROUPS / "memory", "memory.limit_in_bytes"), (CGROUPS, "memory.max")
_END_SECONDS = 10.0

JOIN = (
    "import os\nwith open(os.path.join({group!r}, 'cgroup.procs'), 'w') as procs:\n    procs.write(str(os.getpid()))\n"
)
"""Begins a program that goes into a group."""


@contextmanager
def memory_group(most_bytes: int) -> Iterator[Path]:
    """Make such a group until the block ends; nobody may be left in it by then."""
    with open(Path(tempfile.gettempdir()) / "unhang-test-memory.lock", "a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield from _memory_group(most_bytes)


def _memory_group(most_bytes: int) -> Iterator[Path]:
    group = None
    for parent, limit in _places():
        group = parent / f"unhang-test-{os.getpid()}-{time.monotonic_ns()}"
        with suppress(OSError):
            group.mkdir()
            (group / limit).write_text(str(most_bytes))
            break
        with suppress(OSError):
            group.rmdir()
    else:
        pytest.skip("no control group with bounded memory can be made here")
    try:
        yield group
    finally:
        _remove(group)


def _places() -> Iterator[tuple[Path, str]]:
    """Below our own group (version 1), or beside it (version 2), as a scheduler would; else at the root."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()]
    for _, controllers, path in own:
        if "memory" in controllers.split(","):
            yield _V1[0] / path.lstrip("/"), _V1[1]
        elif not controllers:
            yield (_V2[0] / path.lstrip("/")).parent, _V2[1]
    yield from (_V1, _V2)


def _remove(group: Path) -> None:
    """Remove a group; who was killed in it may take a moment to leave."""
    end = time.monotonic() + _END_SECONDS
    while True:
        try:
            group.rmdir()
            return
        except OSError:
            assert time.monotonic() < end, f"somebody is left in {group}"
            time.sleep(0.05)
