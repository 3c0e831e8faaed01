"""Why a host gave nothing over ssh: what ssh, sshd and the shell there say becomes a reason."""

import re
from typing import NamedTuple

from collector.gather.failures import NoAnswer
from shared.errors import quoted
from shared.missing import Reason

_SSH_FAILED = 255
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_MOST_READ = 8192


class _Row(NamedTuple):
    pattern: re.Pattern[str]
    reason: Reason
    detail: str


# What ssh says stands in its sources (OpenSSH 9: sshconnect.c, sshconnect2.c, ssh.c).
_ROWS = (
    # @    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
    _Row(
        re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED"),
        Reason.REFUSED,
        "its host key differs from the one in known_hosts; find out why before you change it",
    ),
    # Host key verification failed.
    _Row(
        re.compile(r"Host key verification failed"),
        Reason.REFUSED,
        "its host key is not known, or was revoked; compare it and add it to known_hosts",
    ),
    # root@node01: Permission denied (publickey,password).
    _Row(
        re.compile(r"Permission denied \([\w,.@-]{1,200}\)"),
        Reason.NOT_PERMITTED,
        "ssh was refused; log in by key or ssh agent: no password can be asked for",
    ),
    # ssh: Could not resolve hostname node99: Name or service not known
    _Row(re.compile(r"Could not resolve hostname"), Reason.UNREACHABLE, "the host name does not resolve"),
    # ssh: connect to host node01 port 22: Connection refused
    _Row(re.compile(r"Connection refused"), Reason.UNREACHABLE, "the connection was refused: no sshd listens there"),
    # Connection timed out during banner exchange
    # ssh: connect to host node01 port 22: Connection timed out
    _Row(re.compile(r"[Tt]imed out"), Reason.TIMED_OUT, "sshd did not answer in time"),
    # ssh: connect to host node01 port 22: No route to host
    _Row(re.compile(r"No route to host|Network is unreachable"), Reason.UNREACHABLE, "there is no route to the host"),
    # Bad owner or permissions on /home/alice/.ssh/config
    # command-line: line 0: Bad configuration option: nonsense
    _Row(
        re.compile(r"Bad owner or permissions|Bad configuration option"),
        Reason.NOT_ENABLED,
        "the configuration of ssh cannot be used",
    ),
)


def explain_ssh(status: int, said: bytes) -> NoAnswer:
    """Return why a host gave no look, by ssh's exit status and what stood on standard error."""
    text = said[-_MOST_READ:].decode("utf-8", "replace")
    if status == _SSH_FAILED:
        for row in _ROWS:
            if row.pattern.search(text) is not None:
                return NoAnswer(row.reason, f"{row.detail}{_quoted_end(text)}")
        return NoAnswer(Reason.UNREACHABLE, f"ssh failed, or what it ran was killed{_quoted_end(text)}")
    if status == _NOT_FOUND:
        advice = "name it by --remote-command, or bring it along by --with-zipapp"
        return NoAnswer(Reason.NOT_FOUND, f"the command does not exist there; {advice}{_quoted_end(text)}")
    if status == _NOT_EXECUTABLE:
        return NoAnswer(Reason.NOT_PERMITTED, f"the command may not be run there{_quoted_end(text)}")
    if status == 0:
        return NoAnswer(Reason.UNREADABLE, f"what answered is not unhang: it sent no look{_quoted_end(text)}")
    how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
    return NoAnswer(Reason.UNREADABLE, f"the command {how}{_quoted_end(text)}")


def _quoted_end(text: str) -> str:
    """Return the last lines that say something, as a quotation."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {quoted(' / '.join(lines[-2:]), most=200)}" if lines else ""
