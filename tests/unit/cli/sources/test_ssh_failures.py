"""What ssh says when it fails, and what is made of it; and what is made of whatever a host sends."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.sources.ssh_command import HostQuestion, Way
from cli.sources.ssh_failures import explain_ssh
from cli.sources.ssh_round import _read_looks
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
