"""Starts ranks as forks of a Python that has imported the lab's PyTorch, which is most of what a small job costs."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from deploy.lab.environment import Environment
from tests.system.live.fork_server import Forked
from tests.system.live.launchers import Command

_SERVER = Path(__file__).with_name("fork_ranks.py")


class Forks:
    """The process that forks; ends with the block."""

    def __init__(self, environment: Environment, *, nice: int = 0) -> None:
        """`nice`: of the ranks. On a node they have processors of their own, and who watches them has another."""
        own = {"LD_LIBRARY_PATH": environment.search_path, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self._server = subprocess.Popen(
            ("nice", f"-n{nice}", str(environment.python), "-W", "ignore", str(_SERVER)),
            env={**os.environ, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        """Start."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it; what it has forked stays."""
        self._server.kill()
        self._server.communicate()

    def start(
        self, command: Command, environment: Mapping[str, str], output: int, *, imports: Sequence[str] = ()
    ) -> Forked:
        """Start a Python program that writes to the open file `output`; `imports` are there already."""
        assert self._server.stdin is not None and self._server.stdout is not None
        order = [list(command.arguments), dict(environment), f"/proc/{os.getpid()}/fd/{output}", list(imports)]
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        pid = int(self._server.stdout.readline())
        forked = Forked(pid, os.pidfd_open(pid))
        self._server.stdin.write("go\n")
        self._server.stdin.flush()
        return forked
