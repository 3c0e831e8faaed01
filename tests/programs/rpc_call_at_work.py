"""A remote procedure call plays its episodes for hours: nobody issues any operation, and nothing hangs."""

import time

import rig

TRUTH = {"verdict": "not_hung", "busy": [0, 1, 2, 3]}


def play_episodes() -> None:
    """Stand for an actor of reinforcement learning, which its learner has called once and for all."""
    while True:
        time.sleep(0.01)


if __name__ == "__main__":
    rig.call_the_faulty(play_episodes)
