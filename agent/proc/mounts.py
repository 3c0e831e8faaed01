"""Which file system a file lies on, from /proc/PID/mountinfo and without touching the file.

Asking the file itself (statfs) would block on a server that does not answer, which is when it matters.
"""

from typing import NamedTuple

_REMOTE = frozenset(
    "nfs nfs4 lustre gpfs mmfs ceph cifs smb3 9p afs beegfs beegfs_nodev orangefs pvfs2 glusterfs wekafs "
    "panfs acfs virtiofs ocfs2 gfs2 coda smbfs vboxsf".split()
)

_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


class Mount(NamedTuple):
    """One mounted file system."""

    point: str
    kind: str
    source: str
    """What is mounted, as its file system words it: a device, `server:/export`, or a mere word."""


class Mounts:
    """The mounts of one mount namespace."""

    def __init__(self, mountinfo: str) -> None:
        self._by_id: dict[int, Mount] = {}
        self._by_point: dict[str, Mount] = {}
        for line in mountinfo.splitlines():
            self._add(line)

    def _add(self, line: str) -> None:
        # 36 35 98:0 /mnt1 /mnt/data rw,noatime master:1 - nfs4 server:/export rw,errors=continue
        fields, _, kind = (part.split(" ") for part in line.partition(" - "))
        if len(fields) < 5 or not fields[0].isdecimal() or len(fields[0]) > 10:
            return
        mount = Mount(_unescaped(fields[4]), kind[0], _unescaped(kind[1]) if len(kind) > 1 else "")
        self._by_id[int(fields[0])] = mount
        self._by_point[mount.point] = mount

    def by_id(self, mount_id: int) -> Mount | None:
        """Return a mount by the `mnt_id` of an fdinfo file."""
        return self._by_id.get(mount_id)

    def of_path(self, path: str) -> Mount | None:
        """Return the mount that an absolute path lies on."""
        while path:
            if path in self._by_point:
                return self._by_point[path]
            path = path.rpartition("/")[0]
        return self._by_point.get("/")

    def type_of_mount(self, mount_id: int) -> str | None:
        """Return the file system's type by the `mnt_id` of an fdinfo file."""
        mount = self.by_id(mount_id)
        return None if mount is None else mount.kind

    def type_of_path(self, path: str) -> str | None:
        """Return the type of the file system that an absolute path lies on."""
        mount = self.of_path(path)
        return None if mount is None else mount.kind


def _unescaped(text: str) -> str:
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    return text


def is_remote(file_system: str | None) -> bool:
    """May a file of this type hang on another machine? What is not known may."""
    return file_system is None or file_system in _REMOTE or file_system.startswith("fuse")
