"""The variables of a sleeping thread's frames, by py-spy and without stopping the process.

They may hold anything, secrets too: whoever asks takes the few that it knows by name and forgets the rest.
"""

from pathlib import Path
from typing import NamedTuple

from agent.deadline import Deadline
from agent.tools.run_bounded import LARGEST_OUTPUT, run_bounded
from shared.json_bounds import load_json

_WHOLE_TEXTS = "-lll"
"""Given once, it cuts texts to some hundred characters."""
_MOST_BYTES = 64 * 1024 * 1024
"""Of memory, while the answer is read."""
_MOST_FRAMES = 512


class FrameVariables(NamedTuple):
    """One frame and its variables as Python would print them."""

    function: str
    file: str
    variables: dict[str, str]


def variables_of_main_thread(pid: int, program: Path, deadline: Deadline) -> tuple[FrameVariables, ...]:
    """Return the frames of the main thread, innermost first; none where py-spy does not tell."""
    command = [str(program), "dump", "--json", "--nonblocking", _WHOLE_TEXTS, "--pid", str(pid)]
    output = run_bounded(command, deadline)
    if output.status != 0 or len(output.stdout) > LARGEST_OUTPUT:
        return ()
    try:
        threads = load_json(output.stdout, most_bytes=_MOST_BYTES)
        main = next(thread for thread in threads if thread["os_thread_id"] == pid)
        return tuple(_frame(frame) for frame in main["frames"][:_MOST_FRAMES])
    except (ValueError, RecursionError, StopIteration, LookupError, TypeError, AttributeError):
        return ()


def _frame(frame: dict[str, object]) -> FrameVariables:
    told = frame.get("locals")
    found = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    variables = {str(one.get("name")): str(one.get("repr")) for one in found}
    return FrameVariables(str(frame.get("name")), str(frame.get("filename")), variables)
