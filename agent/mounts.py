"""Which file system a file lies on, from /proc/PID/mountinfo and without touching the file.

Asking the file itself (statfs) would block on a server that does not answer, which is when it matters.
"""

_REMOTE = frozenset(
    "nfs nfs4 lustre gpfs mmfs ceph cifs smb3 9p afs beegfs beegfs_nodev orangefs pvfs2 glusterfs wekafs "
    "panfs acfs virtiofs".split()
)

_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


class Mounts:
    """The mounts of one mount namespace."""

    def __init__(self, mountinfo: str) -> None:
        self._types: dict[int, str] = {}
        self._points: dict[str, str] = {}
        for line in mountinfo.splitlines():
            self._add(line)

    def _add(self, line: str) -> None:
        # 36 35 98:0 /mnt1 /mnt/data rw,noatime master:1 - nfs4 server:/export rw,errors=continue
        fields, _, kind = (part.split(" ") for part in line.partition(" - "))
        if len(fields) < 5 or not fields[0].isdecimal():
            return
        point = fields[4]
        for escape, character in _ESCAPES:
            point = point.replace(escape, character)
        self._types[int(fields[0])] = kind[0]
        self._points[point] = kind[0]

    def type_of_mount(self, mount_id: int) -> str | None:
        """Return the file system's type by the `mnt_id` of an fdinfo file."""
        return self._types.get(mount_id)

    def type_of_path(self, path: str) -> str | None:
        """Return the type of the file system that an absolute path lies on."""
        while path:
            if path in self._points:
                return self._points[path]
            path = path.rpartition("/")[0]
        return self._points.get("/")


def is_remote(file_system: str | None) -> bool:
    """May a file of this type hang on another machine? What is not known may."""
    return file_system is None or file_system in _REMOTE or file_system.startswith("fuse")
