"""The root that a thread has passed to an operation that has one, by the variables of PyTorch's function.

No recorder stores it. It can be read as long as the call lasts: not of what was issued to go on by itself.
"""

import re
from collections.abc import Sequence

from agent.proc.python.interpreter import Interpreter, PythonFrame
from shared.wire.stacks import Awaited, Frame

_FILE = re.compile(r"(^|/)torch/distributed/distributed_c10d\.py$")
_CALLS = {
    "broadcast": "broadcast",
    "broadcast_object_list": "broadcast",
    "reduce": "reduce",
    "scatter": "scatter",
    "gather": "gather",
}
"""By function of that file: the operation that its thread is in."""
_ROOTS = ("group_src", "group_dst", "group_src_rank", "group_dst_rank", "src", "dst")
"""The root's rank within the group. PyTorch before 2.6 has `group_src_rank`, and `src` alone in the default group."""


def rooted_call(here: Interpreter, tid: int, frames: Sequence[PythonFrame]) -> Awaited | None:
    """Return in which operation a thread waits, and with which root; None where it is in none that has one."""
    inner = frames[0]
    if inner.function not in _CALLS or not _FILE.search(inner.file):
        return None
    variables = here.variables(inner)
    passed = [variables[name] for name in _ROOTS if name in variables]
    roots = [here.objects.number(value) for value in passed if here.objects.type_name(value) == "int"]
    if not roots or roots[0] < 0:
        return None
    at = Frame(inner.function, inner.file, inner.line)
    return Awaited(tid=tid, at=at, kind="rooted_call", call=_CALLS[inner.function], root=roots[0])
