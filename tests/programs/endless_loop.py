"""The faulty rank counts for ever in user code: it burns a core and never comes to the world's all_reduce.

That it never will no look can tell: it works, and holds the others up.
"""

import rig

TRUTH = {"verdict": "slow", "kinds": ["held_up"], "causes": ["user_code"], "busy": [2], "where": "find_split"}


def find_split() -> int:
    """Search for something that is not there."""
    length = 1
    while length != 0:
        length = length % 1_000_003 + 1
    return length


if __name__ == "__main__":
    rig.train(rig.start(), find_split)
