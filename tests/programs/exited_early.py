"""The faulty rank believes that training is over and leaves with status 0; the others wait in the store for its word.

No launcher is there to end them.
"""

import sys

import rig

TRUTH = {"launch": "direct", "kinds": ["rank_exited", "rank_missing"], "causes": ["user_code", "teardown", "unknown"]}


def end_epoch(place: rig.Place) -> None:
    """Leave, or wait for all."""
    if place.is_faulty:
        sys.exit(0)
    rig.meet_in_store(place, "epoch")


if __name__ == "__main__":
    place = rig.start()
    rig.train_world(place, lambda: end_epoch(place))
