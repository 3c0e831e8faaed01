"""What ssh says when it fails, whatever a host sends, and an ssh that leaves somebody behind who holds its pipes."""

import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.sources.ssh_command import HostQuestion, Way
from cli.sources.ssh_failures import explain_ssh
from cli.sources.ssh_round import SshRound, _read_looks
from collector.gather.fanout.values import RequestDeadline
from shared.missing import Reason
from shared.wire.snapshot import NodeSnapshot

LOOK = NodeSnapshot(host="node01").model_dump_json().encode() + b"\n"


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (255, "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.", "refused"),
        (255, "No ED25519 host key is known for n1 and you have requested strict checking.\n"
              "Host key verification failed.", "refused"),
        (255, "alice@n1: Permission denied (publickey,gssapi-keyex,gssapi-with-mic).", "not_permitted"),
        (255, "ssh: Could not resolve hostname n1: Name or service not known", "unreachable"),
        (255, "ssh: connect to host n1 port 22: Connection refused", "unreachable"),
        (255, "ssh: connect to host n1 port 22: No route to host", "unreachable"),
        (255, "Connection timed out during banner exchange", "timed_out"),
        (255, "ssh: connect to host n1 port 22: Connection timed out", "timed_out"),
        (255, "command-line: line 0: Bad configuration option: nonsense", "not_enabled"),
        (255, "kex_exchange_identification: Connection closed by remote host", "unreachable"),
        (255, "", "unreachable"),
        (127, "bash: line 1: unhang: command not found", "not_found"),
        (126, "bash: line 1: ./unhang: Permission denied", "not_permitted"),
        (1, "Permission denied (publickey).", "unreadable"),  # of a program there, not of ssh
        (1, "Host key verification failed.", "unreadable"),
        (255, "open /tmp/x: Permission denied", "unreachable"),
        (-9, "", "unreadable"),
        (0, "", "unreadable"),
    ],
)  # fmt: skip
def test_reasons(status: int, said: str, reason: str) -> None:
    """The exit status tells ssh's own failures from those of what it ran."""
    failure = explain_ssh(status, said.encode())
    assert failure.reason == reason
    assert said == "" or said.splitlines()[-1][:20] in str(failure)


@pytest.mark.parametrize(
    ("sent", "looks", "fails"),
    [
        (LOOK * 2, 2, False),
        (b"Welcome to node01\n\n" + LOOK + b"noise\n" + LOOK, 2, False),
        (LOOK + LOOK[:-1], 1, False),
        (LOOK[:-2], 0, False),
        (LOOK * 3, 0, True),
        (LOOK + b"{}\n", 1, True),
        (b"{" * 100_000 + b"\n", 0, True),
        (b"hello", 0, True),
        (b"\0\xff\n", 0, True),
        (b"", 0, False),
    ],
)
def test_what_a_host_sends(sent: bytes, looks: int, fails: bool) -> None:
    """Whole lines that are looks, no more of them than were asked for."""
    seen, failure = _read_looks(sent, 2)
    assert (len(seen), failure is not None) == (looks, fails)


@given(st.binary(max_size=200) | st.lists(st.sampled_from([LOOK, b"{", b"\n", b"{}", b"x"])).map(b"".join))
def test_anything_may_be_sent(sent: bytes) -> None:
    """Nothing raises."""
    seen, _ = _read_looks(sent, 2)
    assert len(seen) <= 2


def test_millions_of_lines_are_cheap() -> None:
    """They are passed over, not taken apart."""
    began = time.thread_time()
    _read_looks(b"\n" * 32_000_000 + LOOK, 2)
    assert time.thread_time() - began < 2


def test_the_shell_there_gets_one_line_and_quoted_words() -> None:
    """A job may be called anything, and csh takes neither line ends nor exclamation marks."""
    look = HostQuestion(job="a; reboot 'x' $(y)")
    *options, host, remote = Way(options=("User=alice",)).command("node01", look)
    assert (options[0], options[-1], host) == ("ssh", "--", "node01")
    assert remote.startswith("unhang snapshot ")
    assert remote.endswith(r"""'--job=a; reboot '\'x\'' $(y)'""")
    brought = Way(program=b"PK", remote="/opt/python3").command("node01", HostQuestion())[-1]
    assert brought.startswith("/opt/python3 -c ")
    assert "\n" not in brought
    assert "!" not in brought


def test_nothing_weakens_whom_ssh_believes() -> None:
    """The user's own configuration says so, and the user's options come before our milder ones."""
    words = Way(options=("ConnectTimeout=60",)).command("node01", HostQuestion())
    fixed = ["BatchMode=yes", "ClearAllForwardings=yes", "ControlMaster=no"]
    assert [word for word in words if "=" in word] == [*fixed, "ConnectTimeout=60", "ConnectTimeout=10"]


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
