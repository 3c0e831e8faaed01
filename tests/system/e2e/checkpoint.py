"""All ranks write a checkpoint; those in WRITERS never finish their parts, and the others wait in the store for them.

(Were they in a collective, Gloo would see the closed sockets of ranks that are killed, and raise.)
"""

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "programs"))

import rig
import torch
import torch.distributed as dist

WRITERS = {int(rank) for rank in os.environ["WRITERS"].split(",")}


def write_part() -> None:
    """Write this rank's part, slowly."""
    time.sleep(rig.NEVER)


def commit_checkpoint(place: rig.Place) -> None:
    """Write a part, say so in the store, and wait until all have said so."""
    if place.rank in WRITERS:
        write_part()
    store = dist.distributed_c10d._get_default_store()
    store.set(f"written/{place.rank}", "1")
    store.wait([f"written/{rank}" for rank in range(place.world_size)], timedelta(hours=1))


def main() -> None:
    """Train for a while, and save."""
    place = rig.start()
    gradients = torch.ones(16)
    for step in range(100):
        dist.all_reduce(gradients)
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
            commit_checkpoint(place)


if __name__ == "__main__":
    main()
