"""What accelerate's configuration file says of the meeting of nodes, which `accelerate launch` may leave to it.

https://github.com/huggingface/accelerate/blob/v1.0.0/src/accelerate/commands/config/config_args.py
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from agent.errors import Gone, Unavailable
from agent.proc.job_files import open_named
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted

_MOST_BYTES = 16_384
# main_process_ip: 10.0.0.1        num_machines: 2        "machine_rank": 1,
_SAID = re.compile(
    r"""^ *"?(num_machines|machine_rank|main_process_ip|main_process_port)"?: *["']?([A-Za-z0-9_.:-]{1,100})""",
    re.MULTILINE,
)


def words_in_file(procfs: ProcFs, pid: int, arguments: Sequence[str]) -> str:
    """Return the words that would say the same on its command line, behind the file's name; "" where there are none.

    What the command line says itself counts more, and is left out.
    """
    with suppress(Gone, NotPermitted, Unavailable, OSError):
        path = _path(procfs, pid, arguments)
        with open_named(procfs, pid, path, readers_of(procfs, pid)) as file:
            text = os.pread(file, _MOST_BYTES, 0).decode("utf-8", "replace")
        own = {word.partition("=")[0] for word in arguments}
        said = [f"--{name} {value}" for name, value in _SAID.findall(text) if f"--{name}" not in own]
        return " ".join((f"{path}:", *said)) if said else ""
    return ""


def _path(procfs: ProcFs, pid: int, arguments: Sequence[str]) -> str:
    named = [word.partition("=")[2] for word in arguments if word.startswith("--config_file=")]
    named += [after for word, after in pairwise(arguments) if word == "--config_file"]
    if named:
        return os.path.join(procfs.link(pid, "cwd"), named[0])
    variables = dict(word.partition("=")[::2] for word in procfs.text(pid, "environ").split("\0"))
    cache = variables.get("XDG_CACHE_HOME") or f"{variables.get('HOME', '')}/.cache"
    return f"{variables.get('HF_HOME') or f'{cache}/huggingface'}/accelerate/default_config.yaml"
