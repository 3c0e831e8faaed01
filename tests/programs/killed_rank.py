"""The faulty rank is killed while it writes its part of a checkpoint; the others wait in the store for its word.

By hand, or by the kernel where `UNHANG_TEST_MEMORY_GROUP` names a control group with less memory than it takes, or by
a test that has set `UNHANG_TEST_KILLED_LATER`.
No launcher is there to end them. (Were they in a collective, Gloo would see the closed socket and raise.)
"""

import os
import signal
from pathlib import Path

import rig
import torch

TRUTH = {"launch": "direct", "kinds": ["rank_exited", "rank_missing"], "causes": ["signal", "oom", "unknown"]}


def take_too_much() -> None:
    """Take more memory than there is in the group that a test has made."""
    group = os.environ.get("UNHANG_TEST_MEMORY_GROUP")
    if group is not None:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))
        torch.ones(1 << 28)


def commit_checkpoint(place: rig.Place) -> None:
    """Write this rank's part, say so in the store, and wait until all have said so."""
    if place.is_faulty:
        take_too_much()
        if "UNHANG_TEST_KILLED_LATER" in os.environ:
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)
    rig.meet_in_store(place, "written")


if __name__ == "__main__":
    place = rig.start()
    rig.train_world(place, lambda: commit_checkpoint(place))
