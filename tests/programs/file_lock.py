"""The faulty rank waits for a lock on a cache file, held by a process that an earlier run has left behind."""

import fcntl
import subprocess
import sys
import tempfile

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["filesystem", "user_code"], "where": "build_index"}

HOLD = "import fcntl, sys, time; fcntl.flock(0, fcntl.LOCK_EX); print('held', flush=True); time.sleep(1e9)"


def build_index() -> None:
    """Take the lock of the cache before building in it."""
    with tempfile.NamedTemporaryFile(suffix=".lock") as cache:
        holder = subprocess.Popen(
            [sys.executable, "-S", "-c", HOLD], stdin=cache.fileno(), stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        with open(cache.name) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)


if __name__ == "__main__":
    rig.train(rig.start(), build_index)
