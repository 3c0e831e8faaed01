"""On whose behalf files of a process are read: of all users who may have started it, so that none gains rights.

The question is always whether the person who started the job may read a file, never whether the process could.

1. The process must be its user's own (credentials.py).
2. Its user must be allowed to read the file: with their groups, and as root only with the capabilities for that.
3. So must the users of the processes above it, for a program that changes its ids wholly and then runs another leaves
   no trace but its caller. A process of root's above one of another user ends that: sshd, su, slurmstepd and container
   runtimes decide as which user they go on. Above root's own process nothing does, so all of them are checked.
4. Of root's own processes so must the user who logged in (/proc/PID/loginuid), who stays known when parents end. Its
   groups are not known. One with another group than root's did not come from a login of root's: then only what
   everyone may read is read.

What remains: a set-user-ID program that becomes its owner wholly (groups as well) and runs another program with its
caller's environment, which well-made ones clear, where nothing above it is the caller's any more: the caller has ended,
or a service had started the program itself (`srun PROGRAM`). For root's programs of this kind the login still shows.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from agent.errors import Gone
from agent.proc.credentials import Credentials, is_in_our_user_namespace, read_credentials, require_own
from agent.proc.file_access import Reader
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted

Readers = tuple[Reader, ...]
"""All of them must be allowed to read a file."""

_ANYONE = Reader(None, None)
"""An unknown user, who may read what everyone may."""

_MOST_ANCESTORS = 64
_NO_LOGIN = 0xFFFF_FFFF
_ALL_IDS = "0 0 4294967295"
_OVERFLOW = 65_534


def readers_of(procfs: ProcFs, pid: int) -> Readers:
    """Return on whose behalf files of process `pid` are read. Raises Gone or NotPermitted."""
    own = require_own(procfs, pid)
    found = [_reader(own)._replace(overrides=own.overrides and _is_root_here(procfs, pid, own))]
    found.extend(_above(procfs, own))
    if own.has_root:
        found.extend(_logged_in(procfs, pid))
        found.extend([_ANYONE] if own.gids[0] != 0 else [])
    return tuple(dict.fromkeys(found))


def _is_root_here(procfs: ProcFs, pid: int, own: Credentials) -> bool:
    return own.uids[0] == 0 and _sees_all_ids() and is_in_our_user_namespace(procfs, pid)


def _above(procfs: ProcFs, own: Credentials) -> Iterator[Reader]:
    """Iterate over step 3."""
    pid = own.parent_pid
    for _ in range(_MOST_ANCESTORS):
        if pid == 0:
            return
        try:
            above = read_credentials(procfs, pid)
        except (Gone, NotPermitted):
            break
        if above.has_root and not own.has_root:
            return
        if above.uids[0] != 0:
            yield _reader(above)
        pid = above.parent_pid
    yield _ANYONE


def _reader(found: Credentials) -> Reader:
    """Return the real user. The kernel shows an id that our user namespace does not map as that of `nobody`."""
    uid, groups = found.uids[0], found.groups | {found.gids[0]}
    if _sees_all_ids():
        return Reader(uid, groups)
    return Reader(None if uid == _OVERFLOW else uid, None if _OVERFLOW in groups else groups)


def _logged_in(procfs: ProcFs, pid: int) -> Iterator[Reader]:
    try:
        uid = int(procfs.text(pid, "loginuid", most=32))
    except (Gone, ValueError):  # a kernel without auditing
        return
    except NotPermitted:
        yield _ANYONE
        return
    if uid not in (0, _NO_LOGIN):
        yield Reader(uid, None)


@cache
def _sees_all_ids() -> bool:
    """Does our own user namespace know every id? It stays the same as long as we run."""
    try:
        return " ".join(Path("/proc/self/uid_map").read_text(encoding="ascii").split()) == _ALL_IDS
    except OSError:
        return False
