"""All ranks write a checkpoint; those in WRITERS never finish their parts, and the others wait in the store for them.

(Were they in a collective, Gloo would see the closed sockets of ranks that are killed, and raise.)
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "programs"))

import rig

WRITERS = {int(rank) for rank in os.environ["WRITERS"].split(",")}


def write_part() -> None:
    """Write this rank's part, slowly."""
    time.sleep(rig.NEVER)


def commit_checkpoint(place: rig.Place) -> None:
    """Write a part, say so in the store, and wait until all have said so."""
    if place.rank in WRITERS:
        write_part()
    rig.meet_in_store(place, "written")


def main() -> None:
    """Train for a while, and save."""
    place = rig.start()
    rig.train_world(place, lambda: commit_checkpoint(place))


if __name__ == "__main__":
    main()
