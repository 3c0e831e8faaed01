"""The faulty rank is in uninterruptible sleep, state D: it must not be traced, for that would wait as long as it does.

Real ones wait for a dead NFS server or a broken disk. Here a child made by posix_spawn opens a pipe that nobody
writes to, before it executes anything; until then the kernel lets its parent do nothing, and needs no root for it.
"""

import os
import tempfile
from pathlib import Path

import rig

TRUTH = {
    "kinds": ["rank_not_joined", "rank_stopped"],
    "causes": ["filesystem", "user_code", "unknown"],
    "where": "start_converter",
}


def start_converter() -> int:
    """Start a program whose input cannot be opened."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "input")
        os.mkfifo(path)
        redirect = (os.POSIX_SPAWN_OPEN, 0, str(path), os.O_RDONLY, 0)
        return os.posix_spawn("/bin/true", ["true"], {}, file_actions=[redirect])


if __name__ == "__main__":
    rig.train(rig.start(), start_converter)
