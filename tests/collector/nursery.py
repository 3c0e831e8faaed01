"""Collectors that start at once: forked from a process that has already imported everything, and real in all else."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

REPOSITORY = Path(__file__).parents[2]
START_SECONDS = 30.0

_PROGRAM = """
import json, os, sys
from collector.serve import serve
from collector.settings import read_settings
import alembic.command, anyio._backends._asyncio, uvicorn.lifespan.on, uvicorn.protocols.http.h11_impl
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        serve(read_settings(json.loads(line)))
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Nursery:
    """Makes one collector after the other."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def start(self, **flags: Any) -> int:
        """Fork a collector with these settings, wait until it answers, and return its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(flags) + "\n")
        self._process.stdin.flush()
        pid = int(self._line())
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            try:
                httpx.get(f"http://{flags['listen']}/healthz", timeout=2, trust_env=False)
                return pid
            except httpx.TransportError:
                time.sleep(0.01)
        raise AssertionError("the collector did not start")

    def end(self, pid: int, signal: int) -> int:
        """Send a signal to the collector, and return its wait status once it is gone."""
        os.kill(pid, signal)
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the nursery has died"
        return line


@contextmanager
def nursery() -> Iterator[Nursery]:
    """Open the nursery; a collector that is still there ends with it."""
    command = [sys.executable, "-c", _PROGRAM]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process: subprocess.Popen[str]
    with subprocess.Popen(command, cwd=REPOSITORY, text=True, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield Nursery(process)
        finally:
            os.killpg(process.pid, 9)
