"""Forks ranks of a Python that has imported the lab's PyTorch; `forks.py` starts it with that.

It takes an order in JSON per line, answers with the fork's number, and lets it run at the next line. What is forked
looks executed (tests/system/live/becoming.py), and is in a session of its own.
"""

import importlib
import json
import os
import signal
import sys
from pathlib import Path

_REPOSITORY = str(Path(__file__).resolve().parents[2])
sys.path[0] = _REPOSITORY

from tests.system.live.becoming import Program, become, import_torch, run, show  # noqa: E402 - needs the path


def serve() -> Program:
    """Fork for each order. Returns in forks, with what is to run there."""
    import_torch()
    show(Program(("lab", "forks"), dict(os.environ), _REPOSITORY))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    lines = iter(sys.stdin.readline, "")
    for line in lines:
        arguments, environment, output, imports = json.loads(line)
        for name in imports:  # once for all ranks: half of what DDP's and FSDP's take to start
            importlib.import_module(name)
        opened = os.open(output, os.O_WRONLY | os.O_APPEND)
        gate, opens = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(opens)
            os.read(gate, 1)
            os.setsid()
            program = Program(arguments, environment, _REPOSITORY)
            become(program, (os.open(os.devnull, os.O_RDONLY), opened, opened))
            return program
        os.close(gate)
        print(pid, flush=True)
        next(lines)  # who asked has a handle of it
        os.write(opens, b"1")
        os.close(opens)
        os.close(opened)
    os._exit(0)


if __name__ == "__main__":
    run(serve())
