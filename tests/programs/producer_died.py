"""The faulty rank takes its batches from a queue, and the thread that fills it has died of an exception."""

import queue
import threading

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "Loader.next_batch"}


def produce(place: rig.Place, batches: "queue.Queue[int]") -> None:
    """Read batches; of the faulty rank's there is one that cannot be read."""
    for step in range(rig.FAULTY_STEP if place.is_faulty else 100):
        batches.put(step)
    if place.is_faulty:
        raise ValueError("a broken shard")


class Loader:
    """Batches that a thread of its own reads ahead."""

    def __init__(self, place: rig.Place) -> None:
        self.batches: queue.Queue[int] = queue.Queue()
        self.reader = threading.Thread(target=produce, args=(place, self.batches), daemon=True)
        self.reader.start()

    def next_batch(self) -> int:
        """Wait for a batch."""
        return self.batches.get()


def main() -> None:
    """Train."""
    place = rig.start()
    loader, gradients = Loader(place), torch.ones(16)
    for step in range(100):
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
        loader.next_batch()
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
