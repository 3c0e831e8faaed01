"""`unhang watch`: a real job hangs, and whoever watches is told which rank it is; Ctrl-C leaves nothing behind."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from tests.build.processes import warm
from tests.system.live.asking import unhang
from tests.system.live.jobs import Job

pytestmark = [pytest.mark.live, pytest.mark.steady, pytest.mark.ptrace, pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = 300.0
"""On a busy machine. Without others on it, a minute."""

_NEAR = """#!/bin/sh
# Stands in for ssh: runs the command here, as sshd would let a shell do it.
while [ $# -gt 0 ]; do case "$1" in -o|-p|-l|-F) shift 2;; -*) shift;; *) break;; esac; done
shift
exec sh -c "$*"
"""


@contextmanager
def watching(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run `unhang watch --json`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNHANG"))}
    process = subprocess.Popen(
        unhang("watch", "--json", *arguments),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_event(process: "subprocess.Popen[str]", job: Job) -> dict[str, Any]:
    """Return the next event of that job."""
    until = time.monotonic() + SECONDS
    while True:
        assert process.stdout is not None and process.poll() is None
        line = _line(process.stdout, until)
        event: dict[str, Any] = json.loads(line)
        if event["incident"]["job"].partition("@")[0] == job.name:
            return event


def until_watched(process: "subprocess.Popen[str]", job: Job) -> None:
    """Wait until it has said on standard error that it watches the job."""
    assert process.stderr is not None
    assert any(f"watching {job.name}" in line for line in process.stderr), "it has ended"


def _line(output: IO[str], until: float) -> str:
    ready, _, _ = select.select([output], [], [], max(0.0, until - time.monotonic()))
    assert ready, "nothing was said"
    return output.readline()


def left_of(process: "subprocess.Popen[str]") -> list[str]:
    """Return what else lives in the session that a command began."""
    found = []
    for each in psutil.process_iter():
        try:
            if os.getsid(each.pid) == process.pid and each.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(each.cmdline()))
        except (OSError, psutil.Error):
            continue
    return found


def test_job_on_this_machine(tmp_path: Path) -> None:
    """Its culprit is named, its end is said, and Ctrl-C ends it at once, with all of its helpers."""
    with watching() as process:
        with Job("asleep_before_collective", directory=tmp_path, recorded=True, forked=True) as job:
            opened = next_event(process, job)
            assert opened["kind"] == "opened"
            assert [culprit["rank"] for culprit in opened["incident"]["culprits"]] == [2]
        assert next_event(process, job)["kind"] == "resolved"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Traceback" not in said
        assert left_of(process) == []


def test_job_that_is_killed_as_a_whole(tmp_path: Path) -> None:
    """It trained, and all its ranks got SIGKILL: nothing is left to look at, and what each did last is said."""
    with (
        watching() as process,
        Job("healthy", directory=tmp_path, recorded=True, forked=True, launch="direct") as job,
    ):
        until_watched(process, job)
        for pid in job.ranks.values():
            os.kill(pid, signal.SIGKILL)
        incident = next_event(process, job)["incident"]
    assert (incident["kind"], incident["cause"], incident["job_ended"]) == ("rank_exited", "signal", True)
    assert "ranks 0-3 killed by signal 9; when last seen, rank" in incident["headline"]


def test_job_on_hosts_over_ssh(tmp_path: Path) -> None:
    """The same job, found by visits: opened once, however often it is seen."""
    near = tmp_path / "near"
    near.write_text(_NEAR, encoding="ascii")
    near.chmod(0o755)
    remote = tmp_path / "unhang"
    remote.write_text(warm.script(), encoding="utf-8")
    remote.chmod(0o755)
    with (
        Job("asleep_before_collective", directory=tmp_path, recorded=True, forked=True) as job,
        watching(
            "--ssh", "--hosts", "node01", "--ssh-command", str(near), "--remote-command", str(remote), "--every", "1"
        ) as process,
    ):
        opened = next_event(process, job)
        assert (opened["kind"], [c["rank"] for c in opened["incident"]["culprits"]]) == ("opened", [2])
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in said) == (130, False)
        assert left_of(process) == []
