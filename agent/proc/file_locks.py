"""Who holds the file lock that a process waits for, from /proc/locks and without touching the file."""

import re

from agent.errors import Gone
from agent.proc.procfs import ProcFs, read_bounded
from shared.errors import NotPermitted
from shared.wire.snapshot import Holder

_MOST_BYTES = 1024 * 1024
_MOST_HOLDERS = 8
# 12: FLOCK  ADVISORY  WRITE 4242 08:01:131 0 EOF        12: -> FLOCK  ADVISORY  WRITE 4243 08:01:131 0 EOF
_LOCK = re.compile(
    r"^(?P<number>\d{1,10}): {0,64}(?P<waits>-> )?(?:FLOCK|POSIX|OFDLCK|ACCESS|LEASE|DELEG) [A-Z ]{1,40} "
    r"(?P<pid>-?\d{1,10}) "
)


def lock_holders(procfs: ProcFs, pid: int) -> tuple[Holder, ...]:
    """Return the processes that hold the locks that process `pid` waits for; often none."""
    try:
        table = read_bounded(f"{procfs.root}/locks", _MOST_BYTES).decode(errors="replace")
    except OSError:
        return ()
    pids = dict.fromkeys(parse_holders(table, pid))
    return tuple(Holder(pid=holder, name=name_of(procfs, holder)) for holder in list(pids)[:_MOST_HOLDERS])


def parse_holders(table: str, pid: int) -> list[int]:
    """Read a table of locks: who holds those that `pid` waits for. A holder that we cannot see has pid 0 or -1."""
    locks = [match for match in map(_LOCK.match, table.splitlines()) if match is not None]
    waited = {lock["number"] for lock in locks if lock["waits"] and int(lock["pid"]) == pid}
    return [
        int(lock["pid"]) for lock in locks if not lock["waits"] and lock["number"] in waited and int(lock["pid"]) > 0
    ]


def name_of(procfs: ProcFs, pid: int) -> str:
    """Return the kernel's short name of a process, empty where it has gone."""
    try:
        return procfs.stat(pid).name
    except (Gone, NotPermitted):
        return ""
