"""Step 8's kernel facts: which row of `kernel.toml` a system call, a wait channel or a kernel stack matches.

A stack: the module in brackets classifies, as a task in state D waits for what that module drives. Code that is built
into the kernel names no module; then the function's own name tells. For state D alone: other sleepers may be woken.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from collector.align.stacks.tables.row_types import KernelPattern, kernel_row
from shared.answer.words import Cause
from shared.packs import read_pack

FROZEN = "__refrigerator"
WAITS_FOR_SIGNAL = frozenset({"pause", "rt_sigtimedwait", "rt_sigsuspend"})
"""System calls of signal.pause(), signal.sigwait() and its kin, and sigsuspend(3)."""
AWAITS_ANY = frozenset("poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2".split())
"""System calls that wait for any of several descriptors."""

# __mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]
_FRAME = re.compile(r"^(?P<function>[\w.$]+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(?P<module>\w+))?")


class StackRow(NamedTuple):
    """What a function or module in a kernel stack says."""

    cause: Cause
    label: str
    modules: re.Pattern[str]
    functions: re.Pattern[str]


_PACK = read_pack(__file__, "kernel.toml")
_WAITS: tuple[KernelPattern, ...] = tuple(map(kernel_row, _PACK["waits"]))
_STACKS = tuple(
    StackRow(
        Cause(row["cause"]),
        row["label"],
        re.compile(rf"^(?:{row['modules']})$"),
        re.compile(rf"^(?:{row['functions']})"),
    )
    for row in _PACK["stacks"]
)


@lru_cache(maxsize=1024)
def kernel_pattern(syscall: str, target: str, wchan: str) -> KernelPattern | None:
    """Return the first row that matches all three facts; empty parts of a row match anything."""
    for row in _WAITS:
        if row.syscall.search(syscall) and row.target.search(target) and row.wchan.search(wchan):
            return row
    return None


def stack_row(stack: Iterable[str]) -> StackRow | None:
    """Return what a task in uninterruptible sleep waits for, by its kernel stack, innermost first; None: not told."""
    for frame in stack:
        match = _FRAME.match(frame)
        if match is None:
            continue
        for row in _STACKS:
            module = match["module"]
            if (module is not None and row.modules.match(module)) or row.functions.match(match["function"]):
                return row
    return None
