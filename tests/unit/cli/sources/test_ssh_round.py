"""One round with an ssh that leaves somebody behind who holds its pipes open, as a shared connection does."""

import os
import signal
import time
from pathlib import Path

import pytest

from cli.sources.ssh_command import HostQuestion, Way
from cli.sources.ssh_round import SshRound
from collector.gather.fanout.values import RequestDeadline
from shared.missing import Reason
from tests.unit.cli.sources.test_ssh_failures import LOOK

_HOLDS_STDERR = """#!/bin/sh
setsid sh -c 'echo $$ > {pid}; exec sleep 120' > /dev/null < /dev/null &
until [ -s {pid} ]; do :; done
"""
_ANSWERS = f"cat << 'END'\n{LOOK.decode()}END\n"
_HANGS = "exec sleep 120\n"


async def nobody(_: int) -> None:
    """Be told how many have answered."""


@pytest.mark.parametrize(("does", "reason"), [(_ANSWERS, None), (_HANGS, Reason.TIMED_OUT)], ids=["answers", "hangs"])
async def test_who_holds_its_pipes_open_holds_up_nobody(tmp_path: Path, does: str, reason: Reason | None) -> None:
    """Neither an answer that has come, nor the end of a host's time."""
    ssh, pid = tmp_path / "ssh", tmp_path / "pid"
    ssh.write_text(_HOLDS_STDERR.format(pid=pid) + does)
    ssh.chmod(0o755)
    host_seconds = 60.0 if reason is None else 1.0
    way = Way(client=(str(ssh),))
    round_ = SshRound(way, most_at_once=1, host_seconds=host_seconds, deadline=RequestDeadline.within(60.0))
    began = time.monotonic()
    try:
        (visit,) = await round_.visit_all([("node1", HostQuestion(count=1))], nobody)
        assert time.monotonic() - began < 30
        assert (len(visit.looks), None if visit.missing is None else visit.missing.reason) == (reason is None, reason)
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
