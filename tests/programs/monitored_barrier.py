"""The faulty rank sleeps before a monitored barrier: rank 0 waits to hear from it, the others to hear from rank 0."""

import os
import time
from datetime import timedelta

import rig
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "warm_up"}


PATIENCE = timedelta(seconds=float(os.environ.get("UNHANG_TEST_BARRIER_SECONDS", "3600")))
"""After this time rank 0 says who is missing."""


def warm_up() -> None:
    """Stand for a start-up that takes for ever."""
    time.sleep(rig.NEVER)


def meet(place: rig.Place) -> None:
    """Meet all ranks under rank 0's watch."""
    if place.is_faulty:
        warm_up()
    dist.monitored_barrier(timeout=PATIENCE)


if __name__ == "__main__":
    place = rig.start()
    rig.train_world(place, lambda: meet(place))
