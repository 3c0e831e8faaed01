"""A remote procedure call sleeps in a thread of the faulty rank: its caller waits for it, the others for the end."""

import time

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "load_shard", "busy": [0, 1, 2, 3]}


def load_shard() -> None:
    """Stand for a call that never returns."""
    time.sleep(rig.NEVER)


if __name__ == "__main__":
    rig.call_the_faulty(load_shard)
