"""File systems that never answer, as an NFS server that has died: FUSE without anybody who serves it."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_NO_SET_UID_NO_DEVICES = 6
_DETACH = 2


@contextmanager
def stalled_mount(point: Path) -> Iterator[Path]:
    """Mount such a file system at `point` until the block ends; whoever waits for it then gets an error."""
    library = ctypes.CDLL(None, use_errno=True)
    try:
        channel = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    point.mkdir()
    options = f"fd={channel},rootmode=40000,user_id=0,group_id=0".encode()
    done = library.mount(b"nas1:/export", str(point).encode(), b"fuse", _NO_SET_UID_NO_DEVICES, options)
    number = ctypes.get_errno()
    try:
        if done != 0:
            pytest.skip(f"not allowed to mount: {os.strerror(number)}")
        yield point
    finally:
        os.close(channel)
        library.umount2(str(point).encode(), _DETACH)
