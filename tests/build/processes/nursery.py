"""Collectors that start at once: forks of a process that has imported everything (warm.py), and real in all else."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from collector.serve import serve
from collector.settings import read_settings
from tests.build.processes.ports import free_port
from tests.build.processes.waiting import until_it_answers
from tests.build.processes.warm import Forked, start

_END_SECONDS = 120.0


class Nursery:
    """Makes collectors."""

    def __init__(self) -> None:
        self._made: dict[int, Forked] = {}

    def start(self, **flags: Any) -> int:
        """Fork a collector with these settings, wait until it answers, and return its process id."""
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            made = start((json.dumps(flags),), environment=os.environ, streams=(nothing,) * 3, module=__name__)
        finally:
            os.close(nothing)
        self._made[made.pid] = made
        until_it_answers(f"http://{flags['listen']}/healthz")
        return made.pid

    def end(self, pid: int, by: signal.Signals) -> int:
        """Send a signal to a collector, and return its status, or the signal that ended it, once it is gone."""
        made = self._made.pop(pid)
        made.send_signal(by)
        try:
            return abs(made.wait(_END_SECONDS))
        finally:
            made.end()

    @contextmanager
    def running(self, **flags: Any) -> Iterator[tuple[str, int]]:
        """A collector, by URL and process id, that is killed in the end if it is still there."""
        listen = f"127.0.0.1:{free_port()}"
        pid = self.start(listen=listen, **flags)
        try:
            yield f"http://{listen}", pid
        finally:
            if pid in self._made:
                self.end(pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill those that are still there."""
        for pid in list(self._made):
            self.end(pid, signal.SIGKILL)


@contextmanager
def open_nursery() -> Iterator[Nursery]:
    """Open a nursery; collectors that are still there end with it."""
    nursery = Nursery()
    try:
        yield nursery
    finally:
        nursery.close()


def main() -> None:
    """Be a collector with the settings that stand on the command line."""
    serve(read_settings(json.loads(sys.argv[1])))
    sys.exit(0)
