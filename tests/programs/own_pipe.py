"""The faulty rank reads a pipe of which it alone holds both ends: nothing comes."""

import os

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["pipe_blocked"], "where": "drain"}


def drain() -> None:
    """Read what nobody is left to write."""
    reading, _ = os.pipe()
    os.read(reading, 1)


def main() -> None:
    """Train; at the faulty step one rank drains a pipe."""
    place = rig.start()
    rig.train(place, drain)


if __name__ == "__main__":
    main()
