"""Real processes for the agent to look at: started, waited for until they are where they should be, and ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from agent.errors import Gone
from agent.find.choose_ranks import FoundRanks, Rank, discover
from agent.find.processes import Lister
from agent.proc.procfs import ProcFs

T = TypeVar("T")

HERE = f"127.{1 + os.getpid() % 250}.{os.getpid() // 250 % 250}.1"
"""A name for jobs of this run of the tests: several runs may share a machine, and each sees the ranks of all."""

READY_SECONDS = 30.0

READY = "import os, sys, time\nprint('ready', flush=True)\n"
"""Begins a program that tells the test that it runs."""

SLEEP = READY + "time.sleep(600)\n"

HANGING = f"""
import threading
def refresh_cache():
    time.sleep(600)
{READY}
threading.Thread(target=refresh_cache, daemon=True).start()
os.read(os.pipe()[0], 1)
"""
"""Its main thread waits for a pipe, and another one for a clock."""


def rank_environment(rank: int = 0, *, port: int = 29400, world_size: int = 2, **more: str) -> dict[str, str]:
    """Return the variables of one rank of a job named `HERE:port`, beside our own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "PMI"))}
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size)}
    return {**own, **place, "MASTER_ADDR": HERE, "MASTER_PORT": str(port), **more}


@contextmanager
def running(
    program: str = SLEEP,
    *,
    env: dict[str, str] | None = None,
    command: Sequence[str] = (),
    wait: bool = True,
    **options: Any,
) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program, or `command`, in a process group of its own until the block ends."""
    process = subprocess.Popen(
        command or (sys.executable, "-c", program),
        env=env,
        stdout=options.pop("stdout", subprocess.PIPE),
        text=True,
        start_new_session=True,
        **options,
    )
    try:
        if wait and process.stdout is not None:
            assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def until(look: Callable[[], T], holds: Callable[[T], bool], seconds: float = READY_SECONDS) -> T:
    """Look again and again until what is seen holds, and return it."""
    end = time.monotonic() + seconds
    while not holds(seen := look()):
        assert time.monotonic() < end, f"not so after {seconds} s: {seen}"
        time.sleep(0.02)
    return seen


def is_alive(pid: int) -> bool:
    """Is the process there, and no zombie?"""
    try:
        return ProcFs().stat(pid).state != "Z"
    except Gone:
        return False


def find(procfs: ProcFs | None = None) -> FoundRanks:
    """Find everyone on this machine."""
    procfs = procfs or ProcFs()
    lister = Lister(procfs)
    return discover(lister.listing(), lister, procfs, "here")


def find_rank(pid: int) -> Rank:
    """Find the rank that process `pid` is."""
    return next(rank for rank in find().ranks if rank.stat.pid == pid)
