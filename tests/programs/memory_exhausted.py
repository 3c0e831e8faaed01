"""The faulty rank asks for more memory than there is: its main thread dies, a reporting thread keeps the process."""

import threading

import rig
import torch

TRUTH = {"launch": "direct", "kinds": ["rank_not_joined"], "causes": ["oom", "exception", "teardown"]}

FLOATS = 1 << 45


def heartbeat() -> None:
    """Stand for a reporting thread that was not made a daemon."""
    threading.Event().wait()


def cache_dataset() -> torch.Tensor:
    """Want all samples in memory."""
    return torch.empty(FLOATS)


def main() -> None:
    """Train; at the faulty step one rank fills its cache."""
    threading.Thread(target=heartbeat, name="heartbeat").start()
    place = rig.start()
    rig.train(place, cache_dataset)


if __name__ == "__main__":
    main()
