"""Closer looks at one rank, when somebody asks: a debugger's backtrace, or some seconds of system calls.

They stop or slow the rank, so nobody else looks at it meanwhile, and the watch leaves that time out. gdb reads program
files that the job's user can write: an agent with rights that the user lacks runs it only where its settings allow.
"""

import time
from pathlib import Path

from agent.deadline import Deadline, Late
from agent.errors import Gone, Unavailable, missing_for
from agent.find.choose_ranks import Rank
from agent.look.looker import Looker
from agent.proc.credentials import require_below
from agent.sources.look_context import LookContext
from agent.tools.gdb import backtrace_with_gdb
from agent.tools.pystack import NO_NATIVE, backtrace_with_pystack
from agent.tools.run_bounded import find_program
from agent.tools.strace import trace_syscalls
from shared.errors import NotPermitted
from shared.missing import Reason
from shared.wire.debug_output import DeepLook, How

DEEP_SECONDS = 40.0
"""For a look with a debugger: reading the symbols of PyTorch and CUDA takes it most of that on a busy node."""

_NOT_ALLOWED = (
    "this agent runs no debuggers; set UNHANG_AGENT_DEBUGGERS=true to allow them, or run `unhang look` on the node"
)
_PROGRAMS = {How.GDB: "gdb", How.PYSTACK: "pystack", How.SYSCALLS: "strace"}


class DeepLooker:
    """Takes closer looks, one at a time per rank."""

    def __init__(self, looker: Looker, *, allowed: bool) -> None:
        self._looker = looker
        self._allowed = allowed

    def look(
        self,
        rank: Rank,
        context: LookContext,
        how: How,
        *,
        child: int | None = None,
        seconds: float,
        deadline: Deadline,
    ) -> DeepLook:
        """Look at `rank` closely, or at its child process of that id. What goes wrong is told as missing."""
        pid = rank.stat.pid if child is None else child
        taken = DeepLook(rank=rank.identity.rank, host=context.host, pid=pid, how=how)
        begun = time.monotonic()
        try:
            if not self._allowed:
                raise Unavailable(Reason.NOT_ENABLED, _NOT_ALLOWED)
            if child is not None:
                _require_child(rank, context, child)
            with self._looker.alone_with(rank, context, deadline):
                begun = time.monotonic()
                part = _part(pid, context, how, seconds=seconds, deadline=deadline)
        except (Unavailable, Gone, NotPermitted, Late) as error:
            part = {"missing": missing_for(_PROGRAMS[how], error)}
        return taken.model_copy(update={**part, "took_seconds": round(time.monotonic() - begun, 3)})


def _require_child(rank: Rank, context: LookContext, child: int) -> None:
    """Raise Gone where the rank has no such child, and NotPermitted where that has rights which the rank has not."""
    if child not in rank.children:
        raise Gone(f"rank {rank.identity.rank} (pid {rank.stat.pid}) has no child process {child}")
    require_below(context.procfs, child, rank.stat.pid)


def _part(pid: int, context: LookContext, how: How, *, seconds: float, deadline: Deadline) -> dict[str, object]:
    procfs = context.procfs
    program: Path | None = find_program(_PROGRAMS[how])
    match how:
        case How.GDB:
            return {"stacks": backtrace_with_gdb(procfs, pid, program, deadline)}
        case How.PYSTACK:
            stacks = backtrace_with_pystack(procfs, pid, program, deadline)
            return {"stacks": stacks, "remark": "" if stacks.native else NO_NATIVE}
        case How.SYSCALLS:
            return {"syscalls": trace_syscalls(procfs, pid, program, seconds=seconds, deadline=deadline)}
