"""Whose a process is, and whose processes are told of: an allow-list of users, by name or number.

A job's name is what its processes say of themselves; their user is what the kernel says. A process in a user namespace
is whatever user its own mapping says, and anybody may make such a namespace (`unshare -r`). So it belongs to whoever
made the outermost one. Where that was root, who has given it a range of ids (pods with `hostUsers: false`, LXC), the id
inside counts: that range differs from pod to pod of one job, the id inside does not. Pods choose their id, most have
0, and tenants share names such as `llama-master-0:23456`, so there the namespace is part of the user.
"""

import fcntl
import os
import pwd
import struct
from contextlib import ExitStack, suppress
from threading import Thread

from agent.find.pod_of_process import namespace_of
from agent.proc.procfs import ProcFs, reading
from shared.errors import InvalidSettings, NotPermitted, quoted

_NS_GET_PARENT = 0xB702
_NS_GET_OWNER_UID = 0xB704
"""<linux/nsfs.h>"""

_MOST_NESTED = 32
"""As deep as the kernel lets user namespaces nest."""

_NAME_SECONDS = 0.2
_LEAST_RANGE = 1000
"""Ids that root gives to a container. Set-uid programs such as bwrap map the caller alone, to whatever he likes."""


def parse_users(text: str) -> frozenset[int]:
    """Read `alice,1234` as user ids. Raises InvalidSettings, which quotes the input."""
    return frozenset(map(_uid, text.replace(",", " ").split()))


def _uid(word: str) -> int:
    if word.isdecimal() and word.isascii() and len(word) <= 10:
        return int(word)
    try:
        return pwd.getpwnam(word).pw_uid
    except KeyError as error:
        raise InvalidSettings(
            f"{quoted(word)} is not a user of this machine", advice="write names or user ids, e.g. alice,1234"
        ) from error


def owner_of(procfs: ProcFs, pid: int) -> int | None:
    """Return the real user id of a process, None of one that is gone."""
    return next(iter(procfs.uids(pid)), None)


def user_of(procfs: ProcFs, pid: int) -> str | None:
    """Return whose a process is, as `Identity.user` has it; None where that is not known. Raises Gone."""
    user = _numbered(procfs, pid)
    namespace = None if user is None else namespace_of(procfs, pid)
    return user if namespace is None else f"{namespace}.{user}"


def _numbered(procfs: ProcFs, pid: int) -> str | None:
    uid = owner_of(procfs, pid)
    if uid is None or not procfs.is_real:
        return None if uid is None else str(uid)
    try:
        owner, is_outermost = _namespace_owner(procfs, pid)
    except (NotPermitted, OSError):
        return str(uid)
    if owner is None:
        return str(uid)
    if owner != 0:
        return str(owner)
    inside = _uid_inside(procfs, pid, uid) if is_outermost else None
    return str(uid) if inside is None else f"c{inside}"


class UserNames:
    """Names of users, as this machine knows them. A directory may be slow: it is waited for once, and briefly."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}
        self._asking: Thread | None = None

    def name_of(self, user: str | None) -> str | None:
        """Return the name of a user, of one in a pod its namespace; None: there is none, or it is not known yet."""
        namespace, _, number = (user or "").rpartition(".")
        if namespace or not number.isdecimal():
            return namespace or None
        user = number
        if user not in self._known and (self._asking is None or not self._asking.is_alive()):
            asking = Thread(target=self._ask, args=(user,), daemon=True)
            with suppress(RuntimeError):  # the machine has no more threads
                asking.start()
                self._asking = asking
                asking.join(_NAME_SECONDS)
        return self._known.get(user)

    def _ask(self, user: str) -> None:
        try:
            self._known[user] = pwd.getpwuid(int(user)).pw_name[:64]
        except (KeyError, OverflowError):
            self._known[user] = None


def _namespace_owner(procfs: ProcFs, pid: int) -> tuple[int | None, bool]:
    """Return who made the outermost user namespace below ours that a process is in, and whether it is in no other.

    None: it is in ours. Raises NotPermitted, Gone or OSError.
    """
    ours = os.stat(f"{procfs.root}/self/ns/user")
    with ExitStack() as stack, reading(pid):
        inner = _opened(stack, os.open(procfs.path(pid, "ns/user"), os.O_RDONLY | os.O_CLOEXEC))
        if _is_same(inner, ours):
            return None, True
        for depth in range(_MOST_NESTED):
            outer = _opened(stack, fcntl.ioctl(inner, _NS_GET_PARENT))
            if _is_same(outer, ours):
                owner = fcntl.ioctl(inner, _NS_GET_OWNER_UID, struct.pack("=I", 0))
                return struct.unpack("=I", owner)[0], depth == 0
            inner = outer
    return None, False


def _opened(stack: ExitStack, fd: int) -> int:
    stack.callback(os.close, fd)
    return fd


def _is_same(fd: int, other: os.stat_result) -> bool:
    found = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (other.st_dev, other.st_ino)


def _uid_inside(procfs: ProcFs, pid: int, uid: int) -> int | None:
    #          0     231072      65536        (first id inside, first id as we see it, how many)
    for words in map(str.split, procfs.known_text(pid, "uid_map").splitlines()):
        if len(words) == 3 and all(map(str.isdecimal, words)):
            inside, outside, count = map(int, words)
            if count >= _LEAST_RANGE and outside <= uid < outside + count:
                return inside + uid - outside
    return None
