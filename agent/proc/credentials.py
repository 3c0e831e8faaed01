"""Is a process its user's own? One that gained rights when its program was started is not: it must not steer us.

A user who starts a set-user-ID program chooses its environment and its command line; the kernel hides the rest of it
from them, and so do we. The rule is the kernel's own for ptrace(2), which a user may use only on their own processes:

1. The four user ids (real, effective, saved, file system) are equal, and so are the four group ids.
2. A process that is not root's has no capabilities beyond the ambient ones, which programs without any hand on.
   Those of another user namespace than ours count for nothing here.
3. The program was not started with more rights than its caller had: the kernel notes that as AT_SECURE (getauxval(3)).
   This holds also for a program that has made all its ids equal since, as sudo does while it asks for a password.

Whether a process may be dumped is not asked: one that was root and became its user is not dumpable either, and it does
the work of the user who started it.
"""

import struct
import time
from typing import NamedTuple

from agent.errors import Gone
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted

_EXEC_TRIES = 10
_EXEC_SECONDS = 0.005
_AT_UID, _AT_SECURE = 11, 23
_MOST_KINDS = 1 << 16
"""In linux/auxvec.h; there are some fifty kinds."""
_OVERRIDES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


class Credentials(NamedTuple):
    """The lines of /proc/PID/status that say as whom a process acts."""

    uids: tuple[int, ...]
    """Real, effective, saved, file system."""
    gids: tuple[int, ...]
    groups: frozenset[int]
    permitted: int
    effective: int
    ambient: int
    parent_pid: int

    @property
    def has_root(self) -> bool:
        """May this process become root?"""
        return 0 in self.uids

    @property
    def overrides(self) -> bool:
        """Does the kernel let it read files regardless of their permissions?"""
        return bool(self.effective & _OVERRIDES)


def read_credentials(procfs: ProcFs, pid: int) -> Credentials:
    """Return as whom a process acts. Raises Gone, or NotPermitted where that is not clear."""
    status = procfs.fields(pid, "status")
    try:
        return Credentials(
            uids=_ids(status["Uid"]),
            gids=_ids(status["Gid"]),
            groups=frozenset(int(group) for group in status["Groups"].split()),
            permitted=int(status["CapPrm"], 16),
            effective=int(status["CapEff"], 16),
            ambient=int(status["CapAmb"], 16),
            parent_pid=int(status["PPid"]),
        )
    except (KeyError, ValueError) as error:
        raise NotPermitted(f"it is unclear as which user process {pid} runs") from error


def require_own(procfs: ProcFs, pid: int) -> Credentials:
    """Return the credentials of a process that is its user's own. Raises NotPermitted where it is not, or Gone."""
    found = read_credentials(procfs, pid)
    gained = _gained(found, procfs, pid)
    if gained is not None:
        raise NotPermitted(
            f"process {pid} has rights that the user who started it may not have ({gained}), "
            "as a set-user-ID program has: nothing of it is read"
        )
    return found


def require_below(procfs: ProcFs, pid: int, rank: int) -> None:
    """Raise NotPermitted unless a process that a rank has started is its user's own, and that of the rank's user."""
    found, above = require_own(procfs, pid), read_credentials(procfs, rank)
    if above.uids[0] not in (0, found.uids[0]):
        raise NotPermitted(f"process {pid} belongs to another user than the rank: nothing of it is read")


def has_borrowed_rights(procfs: ProcFs, pid: int) -> bool:
    """Does this process run with the user id of a set-user-ID program (`sudo`)? Its variables are the caller's then."""
    try:
        noted = auxiliary_values(procfs, pid)
        real = read_credentials(procfs, pid).uids[0]
    except (Gone, NotPermitted):
        return False
    gained = noted.get(_AT_SECURE, 0) != 0 and noted.get(_AT_UID, real) != real
    return gained and (not procfs.is_real or is_in_our_user_namespace(procfs, pid))


def is_in_our_user_namespace(procfs: ProcFs, pid: int) -> bool:
    """Do the capabilities of a process count for what we see?"""
    return bool(procfs.is_in_our_namespace(pid, "user"))


def _gained(found: Credentials, procfs: ProcFs, pid: int) -> str | None:
    """Return what says that a process is not its user's own; None where it is."""
    if len(set(found.uids)) > 1:
        return f"its user ids are {' '.join(map(str, found.uids))}"
    if len(set(found.gids)) > 1:
        return f"its group ids are {' '.join(map(str, found.gids))}"
    more = found.permitted & ~found.ambient
    if found.uids[0] != 0 and more and is_in_our_user_namespace(procfs, pid):
        return f"it has capabilities {more:#x} of its own"
    return "its program gained them at start" if _was_secured(procfs, pid) else None


def _was_secured(procfs: ProcFs, pid: int) -> bool:
    """Did the kernel give the program more rights than its caller had? Yes, also where it does not say.

    In the middle of an exec the list is empty for a moment: the kernel fills it once the new program is mapped.
    """
    for _ in range(_EXEC_TRIES):
        secured = _at_secure(procfs, pid)
        if secured is not None:
            return secured
        time.sleep(_EXEC_SECONDS)
    return True


def _at_secure(procfs: ProcFs, pid: int) -> bool | None:
    value = auxiliary_values(procfs, pid).get(_AT_SECURE)
    return None if value is None else value != 0


def auxiliary_values(procfs: ProcFs, pid: int) -> dict[int, int]:
    """Return what the kernel noted when a program was started (getauxval(3)). Raises Gone or NotPermitted."""
    data = procfs.read(pid, "auxv", most=4096)
    if not data:
        raise Gone(f"process {pid} has exited")
    for layout in ("=QQ", "=II"):  # a program of 32 bits has words of 32 bits
        size = struct.calcsize(layout)
        found = dict(struct.iter_unpack(layout, data[: len(data) // size * size]))
        if all(kind < _MOST_KINDS for kind in found):
            return found
    return {}


def _ids(text: str) -> tuple[int, ...]:
    real, effective, saved, file_system = map(int, text.split())
    return real, effective, saved, file_system
