"""The faulty rank counts for ever in user code: it burns a core and never comes to the world's all_reduce."""

import rig

TRUTH = {"or_silent": True, "kinds": ["rank_not_joined"], "causes": ["user_code"], "busy": [2], "where": "find_split"}


def find_split() -> int:
    """Search for something that is not there."""
    length = 1
    while length != 0:
        length = length % 1_000_003 + 1
    return length


def main() -> None:
    """Train; at the faulty step one rank searches for ever."""
    place = rig.start()
    rig.train(place, find_split)


if __name__ == "__main__":
    main()
