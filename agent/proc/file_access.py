"""May a user read a file? The kernel's answer, computed: mode bits and POSIX access lists, as acl(5) says.

Computed, not tried: only a process that has become the user could try. The agent's unit has no right to become another
user, and such a process for each file takes tens of milliseconds, where computing takes tenths of one. Lists that only
the server knows (NFSv4, GPFS) are not seen: of those the mode bits count.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from agent.proc.libc import call_libc
from shared.errors import NotPermitted

READ, SEARCH = 4, 1

_LIST = "system.posix_acl_access"
_VERSION = struct.Struct("<I")
_ENTRY = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NO_LIST = (errno.ENODATA, errno.EOPNOTSUPP)

_OF_THE_KERNEL = {
    0x9FA0: "proc",
    0x62656572: "sysfs",
    0x64626720: "debugfs",
    0x74726163: "tracefs",
    0x73636673: "securityfs",
    0x63677270: "cgroup2",
    0x0027E0EB: "cgroup",
    0x62656570: "configfs",
    0xCAFE4A11: "bpf",
    0xF97CFF8C: "selinuxfs",
    0x43415D53: "smackfs",
    0xDE5E81E4: "efivarfs",
    0x6165676C: "pstore",
    0x42494E4D: "binfmt_misc",
    0x6E736673: "nsfs",
    0x19800202: "mqueue",
}
"""File systems by their number in linux/magic.h where more is asked than the mode says, such as /proc/1/maps."""


class Entry(NamedTuple):
    """One entry of an access list."""

    tag: int
    granted: int
    id: int


class Permissions(NamedTuple):
    """What a file says about who may do what."""

    mode: int
    uid: int
    gid: int
    entries: tuple[Entry, ...] = ()
    """Of its access list, in the kernel's order; empty where it has none."""

    def everyone(self) -> int:
        """Return what is granted to every user, regardless of groups."""
        granted = self.mode >> 6 & self.others()
        return granted & 7

    def others(self) -> int:
        """Return what is granted to each and all who do not own the file."""
        granted = self.mode >> 3 & self.mode
        for entry in self.entries:
            granted &= entry.granted if entry.tag != _USER_OBJ else 7
        return granted & 7


class Reader(NamedTuple):
    """On whose behalf files are read, as the kernel knows them. What is not known (None) counts for what is worse."""

    uid: int | None
    groups: frozenset[int] | None
    overrides: bool = False
    """Does the kernel let them read anything, as it does root?"""

    def may(self, file: Permissions, wanted: int) -> bool:
        """Does the file grant `wanted` (READ, SEARCH)?"""
        if self.overrides:
            return True
        if self.uid is None:
            return not wanted & ~file.everyone()
        if file.uid == self.uid:
            return not wanted & ~(file.mode >> 6)
        if self.groups is None:
            return not wanted & ~file.others()
        if file.entries and file.mode & 0o070:
            return _listed(file, self.uid, self.groups, wanted)
        return not wanted & ~(file.mode >> (3 if file.gid in self.groups else 0))


def _listed(file: Permissions, uid: int, groups: frozenset[int], wanted: int) -> bool:
    """As posix_acl_permission of the kernel's fs/posix_acl.c decides about who does not own the file."""
    mask = next((entry.granted for entry in file.entries if entry.tag == _MASK), 7)
    for entry in file.entries:
        if entry.tag == _USER and entry.id == uid:
            return not wanted & ~(entry.granted & mask)
    matching = [entry.granted for entry in _of_groups(file, groups)]
    if matching:
        return any(not wanted & ~granted for granted in matching) and not wanted & ~mask
    return any(not wanted & ~entry.granted for entry in file.entries if entry.tag == _OTHER)


def _of_groups(file: Permissions, groups: frozenset[int]) -> Iterator[Entry]:
    for entry in file.entries:
        if (entry.tag == _GROUP_OBJ and file.gid in groups) or (entry.tag == _GROUP and entry.id in groups):
            yield entry


def permissions_of(held: int) -> Permissions:
    """Return what the file behind a descriptor says. Raises NotPermitted where it does not say, or not all of it."""
    kind = _OF_THE_KERNEL.get(_file_system_of(held))
    if kind is not None:
        raise NotPermitted(f"the mode of a file in {kind} does not fully say who may read it")
    found = os.fstat(held)
    return Permissions(found.st_mode, found.st_uid, found.st_gid, _entries_of(held))


def _entries_of(held: int) -> tuple[Entry, ...]:
    try:
        data = os.getxattr(f"/proc/self/fd/{held}", _LIST)
    except OSError as error:
        if error.errno in _NO_LIST:
            return ()
        raise NotPermitted(f"its access list cannot be read: {error.strerror}") from error
    return parse_access_list(data)


def parse_access_list(data: bytes) -> tuple[Entry, ...]:
    """Read the attribute as linux/posix_acl_xattr.h lays it out. Raises NotPermitted where it is something else."""
    entries = data[_VERSION.size :]
    if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] != 2 or len(entries) % _ENTRY.size:
        raise NotPermitted("its access list is of an unknown kind")
    return tuple(Entry(*fields) for fields in _ENTRY.iter_unpack(entries))


def _file_system_of(held: int) -> int:
    """Return the number of the file system's type: the first word of struct statfs (statfs(2)), which Python hides."""
    answer = (ctypes.c_long * 64)()
    call_libc("fstatfs", held, ctypes.byref(answer))
    return int(answer[0]) & 0xFFFF_FFFF
