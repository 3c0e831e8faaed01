"""The faulty rank's main thread dies of an exception, but a thread of its own keeps the process alive.

Nobody ends the others, which wait for it in the world's all_reduce: no socket is closed, no launcher looks.
"""

import threading

import rig

TRUTH = {"launch": "direct", "kinds": ["rank_not_joined"], "causes": ["exception", "teardown"]}


def heartbeat() -> None:
    """Stand for a reporting thread that was not made a daemon."""
    threading.Event().wait()


def load_sample() -> None:
    """Fail as real data does."""
    raise ValueError("sample 1048576 has no label")


def main() -> None:
    """Train; at the faulty step one rank raises."""
    threading.Thread(target=heartbeat, name="heartbeat").start()
    place = rig.start()
    rig.train(place, load_sample)


if __name__ == "__main__":
    main()
