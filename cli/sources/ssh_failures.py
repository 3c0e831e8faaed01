"""Why a host gave nothing over ssh: what ssh, sshd and the shell there say becomes a reason."""

import re
from functools import cache

from collector.gather.failures import NoAnswer
from shared.errors import quoted
from shared.missing import Reason
from shared.packs import read_tables

_SSH_FAILED = 255
_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_MOST_READ = 8192


@cache
def _rows() -> tuple[tuple[re.Pattern[str], Reason, str], ...]:
    rows = read_tables(__file__, "ssh_failures.toml")["rows"]
    return tuple((re.compile(row["pattern"]), Reason(row["reason"]), row["detail"]) for row in rows)


def explain_ssh(status: int, said: bytes) -> NoAnswer:
    """Return why a host gave no look, by ssh's exit status and what stood on standard error."""
    text = said[-_MOST_READ:].decode("utf-8", "replace")
    if status == _SSH_FAILED:
        for pattern, reason, detail in _rows():
            if pattern.search(text) is not None:
                return NoAnswer(reason, f"{detail}{_quoted_end(text)}")
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
