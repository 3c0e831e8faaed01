"""Collectors that start at once: forked from a process that has already imported everything, and real in all else."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.build.processes.ports import free_port
from tests.build.processes.waiting import until_it_answers

REPOSITORY = Path(__file__).parents[3]

_PROGRAM = """
import gc, json, os, sys
from collector.serve import serve
from collector.settings import read_settings
import alembic.command, anyio._backends._asyncio, uvicorn.lifespan.on, uvicorn.protocols.http.h11_impl
gc.collect()
gc.freeze()  # else each collector goes through all of it as it starts, which is most of what that takes
for line in sys.stdin:
    asked = json.loads(line)
    if isinstance(asked, int):
        print(os.waitpid(asked, 0)[1], flush=True)
        continue
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        serve(read_settings(asked))
        sys.exit(0)
    print(child, flush=True)
"""


class Nursery:
    """Makes collectors."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def start(self, **flags: Any) -> int:
        """Fork a collector with these settings, wait until it answers, and return its process id."""
        pid = self._ask(flags)
        until_it_answers(f"http://{flags['listen']}/healthz")
        return pid

    def end(self, pid: int, by: signal.Signals) -> int:
        """Send a signal to a collector, and return its wait status once it is gone."""
        os.kill(pid, by)
        return self._ask(pid)

    @contextmanager
    def running(self, **flags: Any) -> Iterator[tuple[str, int]]:
        """A collector, by URL and process id, that is killed in the end if it is still there."""
        listen = f"127.0.0.1:{free_port()}"
        pid = self.start(listen=listen, **flags)
        try:
            yield f"http://{listen}", pid
        finally:
            if Path(f"/proc/{pid}").exists():
                self.end(pid, signal.SIGKILL)

    def _ask(self, what: object) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the nursery has died"
        return int(line)


@contextmanager
def open_nursery() -> Iterator[Nursery]:
    """Open a nursery; collectors that are still there end with it."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], cwd=REPOSITORY, text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            yield Nursery(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
