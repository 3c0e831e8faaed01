"""`unhang watch`: a real job hangs, and whoever watches is told which rank it is; Ctrl-C leaves nothing behind."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from tests.build.processes import warm
from tests.system.e2e.hosts import only_child
from tests.system.live.asking import unhang
from tests.system.live.jobs import Job
from tests.system.live.truths import REPOSITORY

pytestmark = [pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 300.0
"""On a busy machine. Without others on it, a minute."""

_NEAR = """#!/bin/sh
# Stands in for ssh: runs the command here, as sshd would let a shell do it.
while [ $# -gt 0 ]; do case "$1" in -o|-p|-l|-F) shift 2;; -*) shift;; *) break;; esac; done
shift
exec sh -c "$*"
"""


class Watch:
    """An `unhang watch --json` that runs in a container."""

    def __init__(self, beside: int, arguments: Sequence[str], executed: bool) -> None:
        self._beside = beside
        words = ("watch", "--json", *arguments)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNHANG"))}
        (out, write), (err, complain) = os.pipe(), os.pipe()
        self.stdout, self.stderr = open(out), open(err)  # noqa: SIM115 - closed by `close`
        self._outer: subprocess.Popen[bytes] | warm.Forked = (
            subprocess.Popen(
                (*_enter(beside), *unhang(*words)),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=complain,
            )
            if executed
            else warm.start(words, environment=environment, streams=(write, complain), beside=beside)
        )
        for end in (write, complain):
            os.close(end)
        self._pid = only_child(self._outer.pid)

    @property
    def lives(self) -> bool:
        """Has it not ended?"""
        return self._outer.poll() is None

    def interrupt(self, job: Job | None = None) -> tuple[int, str]:
        """Press Ctrl-C. Return its status, and what it has said; nothing of it may be left beside the job."""
        os.kill(self._pid, signal.SIGINT)
        status = self._outer.wait(60)
        assert self._left({self._beside, *(() if job is None else job.processes())}) == []
        return status, self.stderr.read()

    def _left(self, others: set[int]) -> list[str]:
        """Return what else lives in the container."""
        found = []
        namespace = os.readlink(f"/proc/{self._beside}/ns/pid")
        for each in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                inside = os.readlink(f"/proc/{each.pid}/ns/pid") == namespace and each.pid not in others
                if inside and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(each.cmdline()))
        return found

    def close(self) -> None:
        """Kill it where it still runs."""
        with suppress(ProcessLookupError):
            if self.lives:
                os.kill(self._pid, signal.SIGKILL)
        self._outer.wait(60)
        for stream in (self.stdout, self.stderr):
            stream.close()


def _enter(pid: int) -> tuple[str, ...]:
    """Return the command that runs what follows in the namespaces of a container."""
    return ("nsenter", "--target", str(pid), "--user", "--pid", "--mount", f"--wd={REPOSITORY}", "--")


@contextmanager
def watching(beside: int, *arguments: str, executed: bool = False) -> Iterator[Watch]:
    """Run `unhang watch --json` until the block ends; an interpreter of its own where `executed`."""
    watch = Watch(beside, arguments, executed)
    try:
        yield watch
    finally:
        watch.close()


def next_event(watch: Watch, job: Job) -> dict[str, Any]:
    """Return the next event of that job."""
    until = time.monotonic() + SECONDS
    while True:
        assert watch.lives
        line = _line(watch.stdout, until)
        event: dict[str, Any] = json.loads(line)
        if event["incident"]["job"].partition("@")[0] == job.name:
            return event


def until_watched(watch: Watch, job: Job) -> None:
    """Wait until it has said on standard error that it watches the job."""
    assert any(f"watching {job.name}" in line for line in watch.stderr), "it has ended"


def _line(output: IO[str], until: float) -> str:
    ready, _, _ = select.select([output], [], [], max(0.0, until - time.monotonic()))
    assert ready, "nothing was said"
    return output.readline()


def test_job_on_this_machine(tmp_path: Path, container: int) -> None:
    """Its culprit is named, its end is said, and Ctrl-C ends it at once, with all of its helpers."""
    with watching(container, executed=True) as watch:
        with Job("asleep_before_collective", directory=tmp_path, recorded=True, forked=True, beside=container) as job:
            opened = next_event(watch, job)
            assert opened["kind"] == "opened"
            assert [culprit["rank"] for culprit in opened["incident"]["culprits"]] == [2]
        assert next_event(watch, job)["kind"] == "resolved"
        status, said = watch.interrupt()
        assert status == 130
        assert "Traceback" not in said


def test_job_that_is_killed_as_a_whole(tmp_path: Path, container: int) -> None:
    """It trained, and all its ranks got SIGKILL: nothing is left to look at, and what each did last is said."""
    with (
        watching(container) as watch,
        Job("healthy", directory=tmp_path, recorded=True, forked=True, launch="direct", beside=container) as job,
    ):
        until_watched(watch, job)
        for pid in job.outside().values():
            os.kill(pid, signal.SIGKILL)
        incident = next_event(watch, job)["incident"]
    assert (incident["kind"], incident["cause"], incident["job_ended"]) == ("rank_exited", "signal", True)
    assert "; when last seen, rank" in incident["headline"]


def test_job_on_hosts_over_ssh(tmp_path: Path, container: int) -> None:
    """The same job, found by visits: opened once, however often it is seen."""
    near = tmp_path / "near"
    near.write_text(_NEAR, encoding="ascii")
    near.chmod(0o755)
    remote = tmp_path / "unhang"
    remote.write_text(warm.script(), encoding="utf-8")
    remote.chmod(0o755)
    visiting = ("--ssh", "--hosts", "node01", "--ssh-command", str(near), "--remote-command", str(remote))
    with (
        Job("asleep_before_collective", directory=tmp_path, recorded=True, forked=True, beside=container) as job,
        watching(container, *visiting, "--every", "1") as watch,
    ):
        opened = next_event(watch, job)
        assert (opened["kind"], [c["rank"] for c in opened["incident"]["culprits"]]) == ("opened", [2])
        status, said = watch.interrupt(job)
        assert (status, "Traceback" in said) == (130, False)
