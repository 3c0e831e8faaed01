"""Runs pystack where py-spy cannot help: when it is not there, or does not know this version of Python.

Always without stopping the process, so that it is as safe as the least that py-spy does.
"""

from pathlib import Path

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.sources.helper import run_bounded
from shared.errors import UnreadableDump
from shared.missing import Reason
from shared.stack_dumps import parse_pystack_text
from shared.stacks import Stacks


def dump_stacks_with_pystack(pid: int, program: Path, deadline: Deadline) -> Stacks:
    """Return the stacks of a process. Raises Unavailable."""
    command = [str(program), "remote", "--no-block", "--no-color", str(pid)]
    output = run_bounded(command, deadline)
    if output.status is None:
        raise Unavailable(Reason.TIMED_OUT, f"pystack was not done after {deadline.seconds:.1f} s")
    try:
        return parse_pystack_text(output.stdout.decode(errors="replace"), pid=pid)
    except UnreadableDump as error:
        raise Unavailable(Reason.UNREADABLE, f"pystack failed with status {output.status}") from error
