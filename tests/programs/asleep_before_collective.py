"""The faulty rank sleeps in user code and never comes to the world's all_reduce, where the others wait for it."""

import time

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "wait_for_quota"}


def wait_for_quota() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(rig.NEVER)


if __name__ == "__main__":
    rig.train(rig.start(), wait_for_quota)
