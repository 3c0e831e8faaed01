"""The faulty rank opens a file on its main thread, and the file system does not answer.

The file is a pipe that nobody writes to: opening it blocks like on a dead mount, and needs no root.
"""

import os
import tempfile
from pathlib import Path

import rig

TRUTH = {
    "or_silent": True,
    "kinds": ["rank_not_joined"],
    "causes": ["filesystem", "pipe_blocked", "user_code"],
    "where": "read_config",
}


def read_config() -> bytes:
    """Open a file that cannot be opened."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "config.json")
        os.mkfifo(path)
        return path.read_bytes()


if __name__ == "__main__":
    rig.train(rig.start(), read_config)
